package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// fakeTB records the calls.
type fakeTB struct {
	testing.TB
	outcome string
}

func (f *fakeTB) Name() string                   { return "TestFive/here" }
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
		t.Setenv(LeftOut, "")
		var f fakeTB
		Skip(&f, "no %d", 5)
		if f.outcome != want {
			t.Errorf("with %s=%q: %q, want %q", MustRun, value, f.outcome, want)
		}
	}
}

// Skipped tests are recorded, for CI to run them again.
func TestLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "left out")
	t.Setenv(MustRun, "")
	t.Setenv(LeftOut, file)
	for range 2 {
		Skip(new(fakeTB), "no %d", 5)
	}
	dir, _ := os.Getwd()
	got, err := os.ReadFile(file)
	if line := dir + "\tTestFive\n"; err != nil || string(got) != line+line {
		t.Errorf("%q, %v; want two lines of %q", got, err, line)
	}
	t.Setenv(LeftOut, filepath.Join(file, "below a file"))
	var f fakeTB
	if Skip(&f, "no %d", 5); f.outcome == "" || f.outcome[0] != 'f' {
		t.Errorf("Skip with a file that cannot be written: outcome %q, want a failure", f.outcome)
	}
}
