// Package testenv is what tests need of the system they run on: a way to leave
// out what it cannot do, and on Linux network namespaces with interfaces of
// their own. Only tests import it.
package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// MustRun is the environment variable that makes a test fail which would
// otherwise be skipped. CI sets it where everything is there.
const MustRun = "FANFARE_MUST_RUN"

// LeftOut is the environment variable that names a file to which each test that Skip leaves
// out adds a line: the directory of its package and its name, with a tab between. CI runs these
// tests again when it has installed what they want.
const LeftOut = "FANFARE_LEFT_OUT"

// Skip leaves a test out for want of a privilege, a tool or a kernel's feature.
// Where MustRun is set the test fails instead, and where LeftOut is set it is written down. What a system can never do is no
// case for it: such a test calls t.Skip itself, and says why.
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

// writeDown adds a line to the file of what was left out. One write adds all of it, beside
// those of other processes (O_APPEND, open(2)).
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
