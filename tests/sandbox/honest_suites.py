"""Honest programs with tests of every form that a data set has: name, then the code and the tests."""

HONEST = {
    "arguments changed in place": (
        "def f(xs, d):\n    xs.sort(); d['k'] = xs; d['self'] = d; return xs\n",
        "a, d = [3, 1], {}\nassert f(a, d) is a\nassert a == [1, 3]\nassert d['k'] is a and d['self'] is d\n",
    ),
    "arrays changed in place": (
        "def f(a):\n    a += 1\n",
        "import numpy as np\na = np.zeros(3)\nf(a)\nassert a.sum() == 3\n",
    ),
    "a class with operators": (
        (
            "class P:\n"
            "    def __init__(self, x): self.x = x\n"
            "    def __mul__(self, k): return P(self.x * k)\n"
            "    def __sub__(self, k): return P(self.x - k)\n"
            "    def __eq__(self, o): return self.x == o.x\n"
            "    def __lt__(self, o): return self.x < o.x\n"
            "    def __abs__(self): return abs(self.x)\n"
        ),
        (
            "assert P(2) * 3 == P(6) and P(1) != P(2)\nassert (P(5) - 2).x == 3 and abs(P(-3)) == 3\n"
            "assert sorted([P(2), P(1)])[0].x == 1 and max(P(1), P(4)).x == 4\nassert isinstance(P(1), P)\n"
        ),
    ),
    "properties, class methods, copies": (
        (
            "class A:\n"
            "    @property\n    def x(self): return self._x\n"
            "    @x.setter\n    def x(self, v):\n        if v < 0: raise ValueError('negative')\n        self._x = v\n"
            "    @classmethod\n    def make(cls):\n        a = cls(); a.x = 4; return a\n"
        ),
        (
            "import copy, pytest\na = A.make()\nwith pytest.raises(ValueError, match='neg'): a.x = -1\n"
            "b = copy.deepcopy(a)\nb.x = 7\nassert (a.x, b.x) == (4, 7) and not hasattr(a, 'y')\n"
            "assert type(a).__name__ == 'A' and a.__dict__ == {'_x': 4}\n"
        ),
    ),
    "generators": (
        "def g(n):\n    for i in range(n): yield i\n",
        (
            "import pytest\nassert list(g(3)) == [0, 1, 2] and sum(g(4)) == 6\nit = g(1)\nassert next(it) == 0\n"
            "with pytest.raises(StopIteration): next(it)\n"
        ),
    ),
    "its own exceptions": (
        (
            "class Bad(ValueError):\n    def __init__(self, m, code): super().__init__(m); self.code = code\n"
            "def f(): raise Bad('so', 7)\n"
        ),
        (
            "import pytest\nwith pytest.raises(Bad) as e: f()\nassert e.value.code == 7 and str(e.value) == 'so'\n"
            "try:\n    f()\n    assert False\nexcept ValueError as e:\n    assert e.args == ('so',)\n"
        ),
    ),
    "exits": (
        "import sys\ndef f(): sys.exit(3)\n",
        "import pytest\nwith pytest.raises(SystemExit) as e: f()\nassert e.value.code == 3\n",
    ),
    "exceptions of the library": (
        "import json\ndef f(s): return json.loads(s)\n",
        "import json, pytest\nwith pytest.raises(json.JSONDecodeError): f('{')\nassert f('1') == 1\n",
    ),
    "functions handed over": (
        (
            "def f(fn, xs): return [fn(x) for x in xs]\ndef g(fn):\n    try: fn()\n"
            "    except KeyError as e: return str(e)\n"
        ),
        (
            "seen = []\ndef cb(x):\n    seen.append(x)\n    return x + 1\nassert f(cb, [1, 2]) == [2, 3]\n"
            "assert seen == [1, 2]\n"
            "def boom(): raise KeyError('z')\nassert g(boom) == \"'z'\"\nassert f(len, ['ab']) == [2]\n"
        ),
    ),
    "calls that call back": (
        "def twice(fn, x): return fn(fn(x))\ndef inc(x): return x + 1\n",
        "assert twice(inc, 1) == 3\nassert twice(lambda x: twice(inc, x), 0) == 4\n",
    ),
    "an exception through both": (
        "def f(fn): fn()\n",
        (
            "import pytest\nclass Mine(Exception): pass\nthrown = Mine('x')\ndef boom(): raise thrown\n"
            "with pytest.raises(Mine) as e: f(boom)\nassert e.value is thrown\n"
        ),
    ),
    "objects of the tests": (
        (
            "def rev(node):\n    prev = None\n    while node:\n"
            "        node.next, prev, node = prev, node, node.next\n    return prev\n"
        ),
        (
            "class Node:\n    def __init__(self, v, next=None): self.v = v; self.next = next\n"
            "r = rev(Node(1, Node(2)))\nassert (r.v, r.next.v, r.next.next) == (2, 1, None) and isinstance(r, Node)\n"
        ),
    ),
    "generators and files handed over": (
        "def f(g): return sum(g)\ndef h(file): return file.read()\n",
        "import io\nassert f(x for x in [1, 2]) == 3\nassert h(io.StringIO('abc')) == 'abc'\n",
    ),
    "mocks": (
        "def f(m): m.send('x', n=1); return m.get()\n",
        (
            "from unittest.mock import Mock\nm = Mock()\nm.get.return_value = 5\nassert f(m) == 5\n"
            "m.send.assert_called_once_with('x', n=1)\n"
        ),
    ),
    "named tuples and counters": (
        (
            "from collections import namedtuple, Counter\nN = namedtuple('N', 'a b')\n"
            "def f(): return N(1, 2)\ndef c(s): return Counter(s)\n"
        ),
        (
            "assert f() == (1, 2) and f().a == 1 and repr(f()) == 'N(a=1, b=2)' and isinstance(f(), N)\n"
            "assert c('aab').most_common(1) == [('a', 2)] and c('a') == {'a': 1}\n"
        ),
    ),
    "enumerations": (
        "import enum\nclass C(enum.Enum):\n    R = 1\n    G = 2\ndef f(): return C.R\n",
        (
            "assert f() is C.R and f() != C.G and f().name == 'R' and C(1) is C.R and C['G'].value == 2\n"
            "assert [c.name for c in C] == ['R', 'G'] and {C.R: 1}[f()] == 1 and f() in C\n"
        ),
    ),
    "coroutines": (
        (
            "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x\n"
            "async def g():\n    for i in range(3): yield i\n"
        ),
        (
            "import asyncio\nassert asyncio.run(f(3)) == 3\nasync def m(): return [x async for x in g()]\n"
            "assert asyncio.run(m()) == [0, 1, 2]\n"
        ),
    ),
    "context managers": (
        (
            "class R:\n    def __enter__(self): self.o = 1; return self\n"
            "    def __exit__(self, *a): self.o = a[0] is None\n"
        ),
        "with R() as r:\n    assert r.o == 1\nassert r.o is True\n",
    ),
    "closures and caches": (
        (
            "from functools import lru_cache\ndef outer(k): return lambda x: x + k\n"
            "@lru_cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        ),
        (
            "assert outer(2)(3) == 5\n"
            "assert fib(30) == 832040 and fib.cache_info().misses == 31 and fib.__name__ == 'fib'\n"
        ),
    ),
    "containers of its own": (
        (
            "class M:\n    def __init__(self): self.d = {}\n    def __setitem__(self, k, v): self.d[k] = v\n"
            "    def __getitem__(self, k): return self.d[k]\n    def __len__(self): return len(self.d)\n"
            "    def __iter__(self): return iter(self.d)\n    def __contains__(self, k): return k in self.d\n"
            "class T:\n    def __contains__(self, k): return k == 3\n"
        ),
        (
            "import pytest\nm = M()\nassert not m\nm['a'] = 1\n"
            "assert m['a'] == 1 and 'a' in m and 'b' not in m and list(m) == ['a']\n"
            "with pytest.raises(KeyError): m['z']\nassert 3 in T() and 4 not in T()\n"
        ),
    ),
    "a subclass of a dict": (
        (
            "from collections import OrderedDict\nclass LRU(OrderedDict):\n"
            "    def __init__(self, n): super().__init__(); self.n = n\n"
            "    def get(self, k):\n        if k not in self: return -1\n        self.move_to_end(k); return self[k]\n"
            "    def put(self, k, v):\n        self[k] = v; self.move_to_end(k)\n"
            "        if len(self) > self.n: self.popitem(last=False)\n"
        ),
        (
            "c = LRU(2)\nc.put(1, 1); c.put(2, 2)\nassert c.get(1) == 1\nc.put(3, 3)\n"
            "assert c.get(2) == -1 and len(c) == 2\n"
            "assert c == {1: 1, 3: 3} and c != {} and 3 in c and 2 not in c and list(c) == [1, 3]\n"
        ),
    ),
    "results that cannot be handed over, between others": (
        (
            "class K: pass\nclass H(list):\n    __hash__ = lambda s: 1\ndef bad():\n    a = [K(), ValueError(K())]\n"
            "    a.append(a)\n    return a\ndef large(): return [K(), 'x' * 9_000_000]\n"
            "def cyclic():\n    e = ValueError()\n    e.args = (K(), e)\n    raise e\n"
            "def good(): return [K(), {H([1]): 2, (H(),): 3}]\n"
        ),
        (
            "import pytest\nfor f in (bad, large, cyclic):\n    with pytest.raises(Exception): f()\n"
            "assert type(good()[0]).__name__ == 'K' and sorted(good()[1].values()) == [2, 3]\n"
        ),
    ),
    "printed text": (
        "def f(x): print('hi', x)\n",
        (
            "import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): f(3)\n"
            "assert b.getvalue() == 'hi 3\\n'\n"
        ),
    ),
    "imports of the candidate": (
        "def f(x): return x\n__all__ = ['f']\n",
        (
            "from solution import f as g\nimport solution\nfrom solution import *\n"
            "assert g(2) == solution.f(2) == f(2) == 2\n"
        ),
    ),
    "a function named as a module": ("def grp(x): return x\n", "assert grp(3) == 3\n"),
    "a module that the tests forgot to import": (
        "math = None\ndef f(x): return x\n",
        "assert math.floor(f(3.2)) == 3\n",
    ),
    "constants": ("X = 5\nclass C: y = 7\n", "assert X == 5 and C.y == 7\n"),
    "exact values": (
        "def f(x): return x\n",
        (
            "assert f(10 ** 400) == 10 ** 400 and f('\\ud800') == '\\ud800' and f(None) is None and f(True) is True\n"
            "assert type(f((1, [2]))) is tuple and f(float('nan')) != f(float('nan'))\n"
        ),
    ),
    "numpy": (
        "import numpy as np\ndef f(n): return np.arange(n)\n",
        "import numpy as np\nassert (f(3) == np.array([0, 1, 2])).all()\nnp.testing.assert_allclose(f(2), [0, 1])\n",
    ),
    "containers of its own that the tests change": (
        (
            "log = []\nclass N:\n    def __init__(self, v): self.v = v; self.under = []; self.d = {}\n"
            "    def total(self): return self.v + sum(n.total() for n in self.under) + len(self.d)\n"
            "def note(x): log.append(x)\ndef count(): return len(log)\n"
        ),
        (
            "r = N(1)\nr.under.append(N(2))\nr.under[0].under.append(N(4))\nr.d['k'] = 1\nassert r.total() == 8\n"
            "assert [n.v for n in r.under] == [2]\nnote(3)\nassert log == [3]\nlog.clear()\nassert count() == 0\n"
        ),
    ),
    "objects of the library": (
        "def f(p, s): return p.findall(s)\ndef g(r): return r.randint(1, 1)\ndef h(o): return o.a\n",
        (
            "import random, re, types\nassert f(re.compile('a'), 'aba') == ['a', 'a']\n"
            "assert g(random.Random(0)) == 1 and h(types.SimpleNamespace(a=3)) == 3\n"
        ),
    ),
    "numbers of an enumeration": (
        "import enum\nclass C(enum.IntEnum):\n    R = 1\n    G = 2\n",
        "assert C.R == 1 and C(2) is C.G and C(1) is not C.G and C.R < C.G and {C.R: 1}[C(1)] == 1\n",
    ),
    "a decorator that keeps names": (
        "import functools\ndef deco(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a) * 2\n    return w\n",
        "@deco\ndef g(x):\n    'Doc.'\n    return x\nassert (g(2), g.__name__, g.__doc__) == (4, 'g', 'Doc.')\n",
    ),
    "a function of the tests that asserts": (
        "def f(x): return x\n",
        "def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(2) == 2\ncheck(f)\n",
    ),
}
