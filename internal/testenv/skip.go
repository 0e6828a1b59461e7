// Package testenv is what tests need of the system they run on: a way to leave
// out what it cannot do, and on Linux network namespaces with interfaces of
// their own. Only tests import it.
package testenv

import (
	"os"
	"testing"
)

// MustRun is the environment variable that makes a test fail which would
// otherwise be skipped. CI sets it where everything is there.
const MustRun = "FANFARE_MUST_RUN"

// Skip leaves a test out for want of a privilege, a tool or a kernel's feature.
// Where MustRun is set the test fails instead. What a system can never do is no
// case for it: such a test calls t.Skip itself, and says why.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(MustRun) != "" {
		t.Fatalf(MustRun+" is set, but: "+format, args...)
	}
	t.Skipf(format, args...)
}
