package worker

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A command runs on the processors that it is given, and whoever is started next on all again.
func TestStartOn(t *testing.T) {
	all, err := Processors()
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	allowed := func(processors []int) string {
		t.Helper()
		var out strings.Builder
		cmd := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status")
		cmd.Stdout = &out
		if err := startOn(cmd, processors); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(strings.TrimPrefix(out.String(), "Cpus_allowed_list:"))
	}
	before := allowed(nil)
	for _, i := range all {
		if got := allowed([]int{i}); got != fmt.Sprint(i) {
			t.Errorf("on processors %q, want %d", got, i)
		}
	}
	if got := allowed(nil); got != before {
		t.Errorf("then on %q, before on %q", got, before)
	}
	if after, err := Processors(); err != nil || !slices.Equal(after, all) {
		t.Errorf("then %v, before %v: %v", after, all, err)
	}
	if err := startOn(exec.Command("true"), []int{1023}); err == nil || !strings.Contains(err.Error(), "sched_setaffinity") {
		t.Errorf("on a processor that there is not: %v", err)
	}
}
