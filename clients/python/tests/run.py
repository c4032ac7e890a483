"""Runs the tests, and prints their results as Cargo prints those of tests: run.py NAME MODULE..."""

import sys
import time
import unittest


class Results(unittest.TestResult):
    """Prints a line for each test."""

    def startTestRun(self):
        self.passed = 0

    def startTest(self, test):
        super().startTest(test)
        self.wrong = len(self.failures) + len(self.errors)

    def say(self, test, result):
        print(f"test {sys.argv[1]}::{'::'.join(test.id().split('.')[-2:])} ... {result}", flush=True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(test, f"ignored, {reason}")

    def stopTest(self, test):
        if len(self.failures) + len(self.errors) > self.wrong:
            self.say(test, "FAILED")
        elif not any(test is skipped for skipped, _ in self.skipped):
            self.passed += 1
            self.say(test, "ok")
        super().stopTest(test)


def main():
    results, start = Results(), time.monotonic()
    results.startTestRun()
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:]).run(results)
    wrong = results.failures + results.errors
    for test, text in wrong:
        print(f"---- {test}\n{text}")
    print(
        f"test result: {'FAILED' if wrong else 'ok'}. {results.passed} passed; {len(wrong)} failed; "
        f"{len(results.skipped)} ignored; finished in {time.monotonic() - start:.1f}s",
        flush=True,
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
