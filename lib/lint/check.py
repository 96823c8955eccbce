# Reads a Python source on standard input and prints what keeps this very
# interpreter from running it, as JSON. It compiles and never runs the source.
import json
import sys

source = sys.stdin.buffer.read()  # bytes: the source may name an encoding
findings = []
try:
    compile(source, "tool.py", "exec", dont_inherit=True)
except SyntaxError as e:
    findings.append({"line": max(e.lineno or 1, 1), "column": max(e.offset or 1, 1), "what": e.msg})
except (ValueError, RecursionError, MemoryError) as e:
    findings.append({"line": 1, "column": 1, "what": str(e) or type(e).__name__})
print(json.dumps(findings))
