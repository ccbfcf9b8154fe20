def sort_it(xs):
    xs.sort(reverse=True)
