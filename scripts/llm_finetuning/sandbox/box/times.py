"""Dates with times and zones, for `values`; a zone is reduced to its offset at that moment."""

import datetime as dt
from typing import Any


def zone_of(offset: dt.timedelta | None, name: str | None) -> Any:
    """Return what crosses for a zone: its offset and name, or None."""
    return None if offset is None else [offset.days, offset.seconds, offset.microseconds, name]


def read_zone(value: Any) -> dt.timezone | None:
    """Return the zone of that offset."""
    if value is None:
        return None
    offset = dt.timedelta(*value[:3])
    return dt.timezone.utc if not offset and value[3] == "UTC" else dt.timezone(offset, value[3])


def write_time(_: Any, value: dt.time) -> Any:
    """Return what crosses for a time."""
    zone = zone_of(value.utcoffset(), value.tzname())
    return ["T", value.hour, value.minute, value.second, value.microsecond, value.fold, zone]


def write_datetime(_: Any, value: dt.datetime) -> Any:
    """Return what crosses for a date with a time."""
    day = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
    return [
        "Y",
        *day,
        value.fold,
        zone_of(value.utcoffset(), value.tzname()),
    ]  # a zone is reduced to its offset that day


def read_datetime(_: Any, value: list[Any]) -> dt.datetime:
    """Return the date with its time."""
    year, month, day, *rest = value[1:8]
    zone = read_zone(value[9])
    return dt.datetime.combine(dt.date(year, month, day), dt.time(*rest, fold=value[8])).replace(tzinfo=zone)


def read_time(_: Any, value: list[Any]) -> dt.time:
    """Return the time."""
    return dt.time(*value[1:5], fold=value[5]).replace(tzinfo=read_zone(value[6]))
