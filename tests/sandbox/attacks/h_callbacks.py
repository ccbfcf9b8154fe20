def compose(*functions):
    def run(x):
        for function in functions:
            x = function(x)
        return x

    return run


def apply(f, xs):
    return [f(x) for x in xs]
