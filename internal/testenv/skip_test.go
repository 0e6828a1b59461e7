package testenv

import (
	"fmt"
	"testing"
)

// fakeTB notes what is asked of it.
type fakeTB struct {
	testing.TB
	outcome string
}

func (f *fakeTB) Helper()                        {}
func (f *fakeTB) Fatalf(format string, a ...any) { f.outcome = "failed: " + fmt.Sprintf(format, a...) }
func (f *fakeTB) Skipf(format string, a ...any) {
	if f.outcome == "" {
		f.outcome = "skipped: " + fmt.Sprintf(format, a...)
	}
}

func TestSkip(t *testing.T) {
	for value, want := range map[string]string{"": "skipped: no 5", "1": "failed: FANFARE_MUST_RUN is set, but: no 5"} {
		t.Setenv(MustRun, value)
		var f fakeTB
		Skip(&f, "no %d", 5)
		if f.outcome != want {
			t.Errorf("with %s=%q: %q, want %q", MustRun, value, f.outcome, want)
		}
	}
}
