// Package testenv provides what tests need of their system: a way to skip what it cannot do, and on
// Linux network namespaces with interfaces of their own. Only tests import it.
package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// MustRun is the environment variable that makes a test fail which would otherwise be skipped. CI sets
// it where every requirement is installed.
const MustRun = "FANFARE_MUST_RUN"

// LeftOut is the environment variable that names a file to which each test skipped by Skip adds a line: the directory
// of its package and its name, with a tab between. CI runs these tests again when it has installed their requirements.
const LeftOut = "FANFARE_LEFT_OUT"

// Skip skips a test that lacks a privilege, a tool or a kernel feature. With MustRun the test fails instead, and with
// LeftOut the skip is recorded. For what a system can never do, a test calls t.Skip itself, with the reason.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(MustRun) != "" {
		t.Fatalf(MustRun+" is set, but: "+format, args...)
	}
	if file := os.Getenv(LeftOut); file != "" {
		if err := writeDown(file, t.Name()); err != nil {
			t.Fatalf(LeftOut+": %v", err)
		}
	}
	t.Skipf(format, args...)
}

// writeDown adds a line to the file of skipped tests. One write appends it whole, even with concurrent
// processes (O_APPEND, open(2)).
func writeDown(file, test string) error {
	dir, err := os.Getwd() // of a test: its package's
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
