// Package testenv has helpers for tests that depend on the system: skips for missing features, and on Linux network
// namespaces and interfaces. Only tests import it.
package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// MustRun is the environment variable that makes tests fail instead of being skipped. CI sets it where every
// requirement is installed.
const MustRun = "FANFARE_MUST_RUN"

// LeftOut is the environment variable with the path of a file to which each test skipped by Skip adds a line: the
// directory of its package and its name, separated by a tab. CI runs these tests again when it has installed their
// requirements.
const LeftOut = "FANFARE_LEFT_OUT"

// Skip skips a test for a missing privilege, tool or kernel feature. With MustRun the test fails instead, and with
// LeftOut the skip is recorded. For a feature that a system can never have, a test calls t.Skip itself, with the
// reason.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(MustRun) != "" {
		t.Fatalf(MustRun+" is set, but: "+format, args...)
	}
	if file := os.Getenv(LeftOut); file != "" {
		if err := recordSkip(file, t.Name()); err != nil {
			t.Fatalf(LeftOut+": %v", err)
		}
	}
	t.Skipf(format, args...)
}

// recordSkip adds a line to the file of skipped tests. One write appends it whole, even with concurrent processes
// (O_APPEND, open(2)).
func recordSkip(file, test string) error {
	dir, err := os.Getwd() // in a test: the directory of its package
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	test, _, _ = strings.Cut(test, "/")
	_, err = fmt.Fprintf(f, "%s\t%s\n", dir, test)
	return err
}
