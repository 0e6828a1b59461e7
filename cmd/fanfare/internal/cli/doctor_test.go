package cli

import (
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// On any host the self-tests on loopback and within the process pass, and the counts and the exit
// code match the findings.
func TestDoctor(t *testing.T) {
	before := runtime.NumGoroutine()
	r := runWith(t.Context(), "", "doctor", "-json", "-timeout", "1m")
	list := objects(t, r.stdout)
	if len(list) < 5 || r.stderr != "" {
		t.Fatalf("exit code %d, %d objects, standard error %q, want 5 objects or more and nothing", r.code, len(list), r.stderr)
	}
	levels, tested := map[string]float64{}, []string{}
	for _, o := range list[:len(list)-1] {
		level, text := o["level"].(string), o["text"].(string)
		levels[level]++
		if o["type"] != "finding" || o["area"] == "" || text == "" {
			t.Errorf("finding %v lacks type finding, an area or a text", o)
		}
		if strings.Contains(text, "self-test") && level == "ok" {
			tested = append(tested, o["area"].(string))
		}
	}
	want := []string{"mem", "sim", "udp"}
	if runtime.GOOS == "linux" && !strings.Contains(r.stdout, "Soft-RoCE occupies its UDP port") {
		want = append(want, "roce")
	}
	if runtime.GOOS == "linux" {
		want = append(want, "shm")
	}
	if !slices.Equal(tested, want) {
		t.Errorf("tests passed for %v, want %v:\n%s", tested, want, r.stdout)
	}
	sum := list[len(list)-1]
	for _, level := range []string{"ok", "info", "warn", "fail"} {
		if sum[level] != levels[level] {
			t.Errorf("summary %v, but %v", sum, levels)
		}
	}
	code := map[any]int{"ok": exitOK, "info": exitOK, "warn": exitWarnings, "fail": exitIncomplete}[sum["level"]]
	if sum["type"] != "summary" || r.code != code {
		t.Errorf("exit code %d with summary %v, want %d", r.code, sum, code)
	}
	testenv.AwaitGoroutines(t, before)
}

// Doctor lists the buses of this host with unsealed groups, and no sealed ones.
func TestDoctorListsUnsealedBuses(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes have no inspection sockets on this system")
	}
	t.Setenv(inspect.Variable, filepath.Join(t.TempDir(), "fanfare")) // independent of the environment
	ring := filepath.Join(t.TempDir(), "ring")
	if r := runWith(t.Context(), "", "key", "new", ring); r.code != exitOK {
		t.Fatalf("key new failed: %s", r.stderr)
	}
	for _, c := range []struct {
		name, url string
		open      bool
	}{
		{"bus-in-the-open", loopbackURL(t), true},
		{"bus-with-keys", loopbackURL(t) + "&keys=" + ring, false},
		{"bus-within", "mem://" + t.Name(), false},
	} {
		b, err := pubsub.Config{Name: c.name, Logger: slog.New(slog.DiscardHandler)}.Open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		out := runWith(t.Context(), "", "doctor", "-notest").stdout
		named := strings.Contains(out, "("+c.name+") on "+strings.Split(c.url, "?")[0])
		if named != c.open || named && !strings.Contains(out, "its groups are not sealed: any host on the network can read, forge and change all messages") {
			t.Errorf("%s: doctor reports unsealed groups: %v, want %v:\n%s", c.name, named, c.open, out)
		}
		b.Close()
	}
}

// The text output; -q prints only warnings and failures.
func TestDoctorText(t *testing.T) {
	r := runWith(t.Context(), "", "doctor", "-notest")
	if !strings.HasSuffix(r.stdout, ".\n") || !strings.Contains(r.stdout, "This host is ") || strings.Contains(r.stdout, "self-test;") {
		t.Errorf("exit code %d, want a sentence about this host without a self-test:\n%s", r.code, r.stdout)
	}
	for line := range strings.Lines(runWith(t.Context(), "", "doctor", "-notest", "-q").stdout) {
		if !strings.HasPrefix(line, "warn") && !strings.HasPrefix(line, "fail") && !strings.HasPrefix(line, "      ") {
			t.Errorf("doctor -q writes %q, want only warnings and failures", line)
		}
	}
}

// Each result has its exit code.
func TestDoctorExitCodes(t *testing.T) {
	for level, want := range map[doctor.Level]int{doctor.OK: 0, doctor.Info: 0, doctor.Warn: exitWarnings, doctor.Fail: exitIncomplete} {
		var out strings.Builder
		d := &doctorRun{e: &env{stdout: &out}}
		if err := d.report(doctor.Finding{Area: "test", Level: level, Text: "something", Fix: "do this"}); err != nil {
			t.Fatal(err)
		}
		err := d.verdict()
		code := exitOK
		if own, ok := err.(*exitError); ok {
			code = own.code
		} else if err != nil {
			code = exitIncomplete
		}
		if code != want || !strings.Contains(out.String(), "try: do this") {
			t.Errorf("%v: exit code %d, want %d:\n%s", level, code, want, out.String())
		}
	}
}

// A failed self-test reports the step that failed.
func TestDoctorFailures(t *testing.T) {
	d := &doctorRun{timeout: time.Minute}
	simulated := func(url string) (f doctor.Finding) { // in virtual time
		synctest.Test(t, func(t *testing.T) { f = d.groupTest(t.Context(), "sim", url) })
		return f
	}
	for _, c := range []struct {
		f        doctor.Finding
		level    doctor.Level
		wantText string
	}{
		{d.groupTest(t.Context(), "roce", "roce://no-such-interface"), doctor.Fail, "no network interface is called"},
		{d.udpTest(t.Context(), "no-such-interface"), doctor.Fail, "no-such-interface"},
		{d.busTest(t.Context(), "mem", "mem://x?groups=0"), doctor.Fail, "cannot be opened"},
		{simulated("sim://?loss=1"), doctor.Fail, "0 of 10 messages"},
		// A fabric without send-only members is no failure.
		{simulated("sim://?sendonly=off"), doctor.Warn, "no send-only membership"},
	} {
		if c.f.Level != c.level || !strings.Contains(c.f.Text, c.wantText) {
			t.Errorf("%+v, want %v with %q", c.f, c.level, c.wantText)
		}
	}
}

// -iface tests an RDMA device, by its name or its interface; otherwise a finding reports that it
// was not tested.
func TestDoctorRDMA(t *testing.T) {
	facts := &doctor.Facts{VerbsErr: errors.New("not in this build"), Root: fstest.MapFS{
		"sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0": {Data: []byte("eth0\n")},
		"sys/class/infiniband/mlx5_1/ports/1/state":           {},
	}}
	for _, c := range []struct {
		iface string
		want  []string // findings about rdma
	}{
		{"", []string{"info rdma://mlx5_1 was not tested, because", "info rdma://rxe0 was not tested, because"}},
		{"rxe0", []string{"warn rdma://rxe0 was not tested: not in this build"}},
		{"eth0", []string{"warn rdma://rxe0 was not tested: not in this build"}},
		{"eth1", nil},
	} {
		d := &doctorRun{iface: c.iface, timeout: time.Nanosecond}
		var got []string
		for _, test := range d.selfTests(facts) {
			if f := test(t.Context()); f.Area == "rdma" {
				got = append(got, f.Level.String()+" "+f.Text)
			}
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("-iface %q: %q, want %q", c.iface, got, c.want)
		}
	}
	// An address selects its interface.
	lo := sys.LoopbackName()
	facts.Addrs = map[string][]netip.Addr{lo: {netip.MustParseAddr("127.0.0.9")}}
	d := &doctorRun{iface: "127.0.0.9"}
	if err := d.where(facts); err != nil || d.iface != lo {
		t.Errorf("an address of %s selects %q, error %v, want %[1]s", lo, d.iface, err)
	}
	d = &doctorRun{iface: "mlx5_9"}
	if err := d.where(facts); err == nil || !strings.Contains(err.Error(), "RDMA devices: mlx5_1, rxe0") {
		t.Errorf("an unknown device fails with %v, want a list of the RDMA devices", err)
	}
}

func TestDoctorWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, wantText string }{
		{"eth0", "no arguments"},
		{"-timeout 0s", "more than 0"},
		{"-timeout 5", "500ms"},
		{"-notest -iface lo", "use one of the two"},
		{"-iface=", "is empty"},
		{"-iface no-such-interface", `"no-such-interface" is not a network interface, an address or an RDMA device of this host: interfaces are `},
		{"-iface 192.0.2.250", "an address or an RDMA device"},
		{"-nope", "-nope"},
		{"-peer=", "is empty"},
		{"-peer 239.1.2.3", "one host"},
		{"-peer ::1", "IPv4"},
		{"-peer 10.0.0.1 -listen", "not both on one host"},
		{"-listen -for 5s", "-for needs -peer"},
		{"-for 5s", "-for needs -listen or -peer"},
		{"-ttl 2", "-ttl needs -listen"},
		{"-listen -ttl 0", "1 to 255"},
		{"-listen -notest", "tests of this host"},
		{"-peer 10.0.0.1 -timeout 3s", "tests of this host"},
		{"-peer 10.0.0.1 -for 2h", "from 0s to 1h"},
		{"-listen -group 10.0.0.1:7401", "multicast group and a UDP port"},
		{"-listen -group 239.1.2.3", "multicast group and a UDP port"},
		{"-listen -iface no-such-interface", "is not a network interface"},
	} {
		r := runWith(t.Context(), "", append([]string{"doctor"}, strings.Fields(c.args)...)...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.wantText) {
			t.Errorf("fanfare doctor %s: exit code %d, standard output %q, standard error %q, want %d, nothing and %q", c.args, r.code, r.stdout, r.stderr, exitUsage, c.wantText)
		}
	}
}
