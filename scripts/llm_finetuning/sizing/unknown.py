"""The one way in which a run's memory is not known."""


class Unknown(ValueError):  # noqa: N818  it says what is not known, as a refusal does
    """Model, machine or a setting of the run is one that is not counted here; one line says which and what to do."""
