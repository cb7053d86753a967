"""Short logs as the tools print them, and files made of text, for the tests of log understanding."""

from __future__ import annotations

from agentloop.request import Classification
from agentloop.types import Derived, FileKind, Memory, SourceFile


def log_file(data: bytes | str, index: int = 0, derived: Derived | None = None) -> SourceFile:
    """A log in memory, as discovery hands it over."""
    raw = data.encode() if isinstance(data, str) else data
    return SourceFile(
        index,
        f"in{index + 1}",
        f"log{index}.log",
        FileKind.LOG,
        "",
        "text/plain",
        len(raw),
        "sha256:" + "0" * 64,
        Classification.INTERNAL,
        Memory(raw),
        derived=derived,
    )


PYTEST = """\
============================= test session starts ==============================
collected 3 items

test_a.py .FF                                                            [100%]

=================================== FAILURES ===================================
__________________________________ test_price __________________________________

    def test_price():
>       assert price(10, 1.234) == 12.34
E       assert 12.3 == 12.34

test_a.py:15: AssertionError
__________________________________ test_store __________________________________

    def load(s):
>           return int("x" + s.p)
E           ValueError: invalid literal for int() with base 10: 'xa'

test_a.py:10: ValueError

The above exception was the direct cause of the following exception:

    def test_store():
>       Store("a").load()
E           RuntimeError: cannot load store

test_a.py:12: RuntimeError
=========================== short test summary info ============================
FAILED test_a.py::test_price - assert 12.3 == 12.34
FAILED test_a.py::test_store - RuntimeError: cannot load store
========================= 2 failed, 1 passed in 0.51s =========================
"""

UNITTEST = """\
test_a (__main__.T.test_a) ... ok
test_c (__main__.T.test_c) ... ERROR

======================================================================
ERROR: test_c (__main__.T.test_c)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/src/ut.py", line 5, in test_c
    open('/nonexistent/x')
FileNotFoundError: [Errno 2] No such file or directory: '/nonexistent/x'

----------------------------------------------------------------------
Ran 2 tests in 0.002s

FAILED (errors=1)
"""

CARGO = """\
     Running unittests src/lib.rs (target/debug/deps/a-de22c1bda0609b20)

running 2 tests
test tests::t_ok ... ok
test tests::t_div ... FAILED

failures:

---- tests::t_div stdout ----

thread 'tests::t_div' (10617) panicked at src/lib.rs:2:37:
attempt to divide by zero
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

failures:
    tests::t_div

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s

error: test failed, to rerun pass `--lib`
"""

JEST = """\
yarn run v1.22.19
$ jest --ci
 PASS  src/b.test.js
 FAIL  src/a.test.js
  ● suite › adds

    expect(received).toBe(expected) // Object.is equality

    Expected: 4
    Received: 3

      at Object.toBe (src/a.test.js:5:22)

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 3 passed, 4 total
error Command failed with exit code 1.
"""

TSC = """\
2026-05-01T10:00:01.0000000Z ##[group]Run npm run build
2026-05-01T10:00:01.2000000Z ##[endgroup]
2026-05-01T10:00:02.0000000Z > web@1.0.0 build
2026-05-01T10:00:05.0000000Z src/app.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'.
2026-05-01T10:00:05.2000000Z npm ERR! code ELIFECYCLE
2026-05-01T10:00:05.4000000Z ##[error]Process completed with exit code 2.
2026-05-01T10:00:05.5000000Z Post job cleanup.
2026-05-01T10:00:06.0000000Z Cleaning up orphan processes
"""

GO = """\
=== RUN   TestOK
--- PASS: TestOK (0.00s)
=== RUN   TestDiv
--- FAIL: TestDiv (0.00s)
panic: runtime error: integer divide by zero [recovered]

goroutine 7 [running]:
testing.tRunner.func1.2({0x50e3c0, 0x5f4a10})
\t/usr/local/go/src/testing/testing.go:1526 +0x24e
example.com/a.TestDiv(0xc000007860)
\t/src/a/add_test.go:12 +0x1d
exit status 2
FAIL\texample.com/a\t0.005s
FAIL
"""

MAVEN = """\
[INFO] Scanning for projects...
[WARNING] Using platform encoding
[INFO] --- maven-compiler-plugin:3.8.1:compile (default-compile) @ app ---
[INFO] Compiling 60 source files to /build/target/classes
[INFO] -------------------------------------------------------------
[ERROR] COMPILATION ERROR :
[INFO] -------------------------------------------------------------
[ERROR] /build/src/main/java/app/Store.java:[147,78] cannot find symbol
  symbol:   method open(String)
  location: class app.Journal
[INFO] 1 error
[INFO] -------------------------------------------------------------
[INFO] BUILD FAILURE
[INFO] -------------------------------------------------------------
[INFO] Finished at: 2026-01-06T16:54:54+01:00
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.8.1:compile (default) \
on project app: Compilation failure
[ERROR] /build/src/main/java/app/Store.java:[147,78] cannot find symbol
[ERROR] -> [Help 1]
[ERROR] Re-run Maven using the -X switch to enable full debug logging.
Build step 'Execute shell' marked build as failure
[WS-CLEANUP] Deleting project workspace...
Finished: FAILURE
"""

GRADLE = """\
> Task :app:compileJava
> Task :app:test FAILED
10 tests completed, 1 failed

DiffTest > parses() FAILED
    java.lang.IllegalArgumentException at DiffTest.java:61

FAILURE: Build failed with an exception.

* What went wrong:
Execution failed for task ':app:test'.
> There were failing tests. See the report at: file:///build/reports/index.html

BUILD FAILED in 14s
"""

GCC = """\
gcc -Wall -c bad.c -o a.o
bad.c: In function 'f':
bad.c:2:35: error: expected ';' before '}' token
    2 | int f(int a){ int unused; return a }
      |                                   ^~
bad.c:2:19: warning: unused variable 'unused' [-Wunused-variable]
make: *** [Makefile:4: a.o] Error 1
"""

DOTNET = """\
  Determining projects to restore...
/src/App/Program.cs(14,20): error CS0103: The name 'config' does not exist [/src/App.csproj]

Build FAILED.
    0 Warning(s)
    1 Error(s)
"""

KLOG = """\
I0826 10:00:01.000000       1 main.go:20] starting controller
W0826 10:00:03.000000       1 reflector.go:324] failed to list *v1.Pod: dial tcp 10.0.0.1:443: i/o timeout
I0826 10:00:05.000000       1 sync.go:12] resync
F0826 10:00:31.000000       1 main.go:88] cache did not sync within 30s, giving up
"""

# The log, the lines of its root failure (some of them must be cited first), and words of the claim.
ROOTS = {
    "pytest": (PYTEST, range(7, 14), "test_price: assert 12.3 == 12.34"),
    "unittest": (UNITTEST, range(5, 11), "No such file or directory"),
    "cargo": (CARGO, range(9, 14), "attempt to divide by zero"),
    "jest": (JEST, range(4, 12), "Expected: 4 Received: 3"),
    "tsc": (TSC, range(4, 5), "error TS2322"),
    "go": (GO, range(4, 12), "integer divide by zero"),
    "maven": (MAVEN, range(8, 11), "cannot find symbol"),
    "gradle": (GRADLE, range(5, 7), "IllegalArgumentException"),
    "gcc": (GCC, range(3, 6), "expected ';' before '}' token"),
    "dotnet": (DOTNET, range(2, 3), "CS0103"),
    "klog": (KLOG, range(4, 5), "cache did not sync"),
}
