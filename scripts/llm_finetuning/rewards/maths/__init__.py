"""Reading and comparing mathematical answers without evaluating text, without signals, without sympy.

`notation` cleans, `lexer` cuts, `grammar` reads expressions, `answers` types whole answers, `exact` and `values`
compute, `comparison` decides, `referee` asks Math-Verify in a killable process about what the grammar cannot read.
"""
