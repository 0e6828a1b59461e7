package clock

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// setVar enables TestClockThatIsSet, which compiles a changed standard library.
const setVar = "FANFARE_CLOCK_SET"

// These tests do not depend on the wall clock. Excluded are tests of freshness and validity of keys (transport/sealed,
// transport/signed, docs/protocol §27, §29), and comparisons with the host's clock, which is not set: the age of a
// socket's file (TestStale), and the time stamps of cmd/fanfare/internal/tap.
var runs = [][]string{
	{"-run", "Conform|MinimumSpace|Memory", "./transport/shm"},
	{"-run", "Conform", "./transport/mem", "./transport/udp", "./transport/simnet", "./transport/rocenet", "./transport/legs", "./transport/faulty"},
	{"./internal/lossrecord", "./internal/engine"},
	{"-run", "Restart|Instance|Epoch|Silent|Lost", "./pubsub"},
	{"-short", "-skip", "^TestStale$", "./internal/inspect", "./rdma/roce", "./rdma/fabric", "./cmd/fanfare/internal/doctor/peer", "./cmd/fanfare/internal/web", "./cmd/fanfare/internal/top"},
}

// stepVar is the direction in which the clock is set.
const stepVar = "FANFARE_CLOCK_STEP"

// changes are replacements in the standard library: every 100 ms the clock is set by an hour.
var changes = []string{
	"package time\n", "package time\n\nimport \"syscall\"\n",
	"\nfunc Now() Time {\n", `
var clockStep = func() int64 {
	direction, _ := syscall.Getenv("` + stepVar + `")
	return map[string]int64{"back": -3600, "forward": 3600}[direction]
}()

func Now() Time {
`,
	"	sec, nsec, mono := runtimeNow()\n	if mono == 0 {\n", "	sec, nsec, mono := runtimeNow()\n	sec += clockStep * ((mono - startNano) / 100e6)\n	if mono == 0 {\n",
}

// Timers neither wait for a clock that was set back, nor fire at once when it is set forward.
func TestClockThatIsSet(t *testing.T) {
	if os.Getenv(setVar) == "" {
		t.Skipf("%s is not set", setVar)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "src/time/time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := string(text)
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(set, changes[i]) != 1 {
			t.Fatalf("%s does not contain %q exactly once: check how Now reads the clock", file, changes[i])
		}
		set = strings.Replace(set, changes[i], changes[i+1], 1)
	}
	dir := t.TempDir()
	other, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {file: other}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{other: []byte(set), overlay: list} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, way := range []string{"back", "forward"} {
		for _, args := range runs {
			cmd := exec.Command("go", append([]string{"test", "-count=1", "-overlay=" + overlay}, args...)...)
			cmd.Dir, cmd.Env = "../..", append(os.Environ(), stepVar+"="+way)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("set %s, %v: %v\n%s", way, args, err, out)
			}
		}
	}
}
