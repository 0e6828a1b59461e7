package cli

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/doctor"
)

// On any host: the self-tests on loopback and within the process pass, and the
// counts and the exit code are those of the findings.
func TestDoctor(t *testing.T) {
	before := runtime.NumGoroutine()
	r := runWith(t.Context(), "", "doctor", "-json", "-timeout", "1m")
	list := objects(t, r.stdout)
	if len(list) < 5 || r.stderr != "" {
		t.Fatalf("exit code %d, %d objects, standard error %q", r.code, len(list), r.stderr)
	}
	levels, tested := map[string]float64{}, []string{}
	for _, o := range list[:len(list)-1] {
		level, text := o["level"].(string), o["text"].(string)
		levels[level]++
		if o["type"] != "finding" || o["area"] == "" || text == "" {
			t.Errorf("finding %v", o)
		}
		if strings.Contains(text, "self-test") && level == "ok" {
			tested = append(tested, o["area"].(string))
		}
	}
	want := []string{"mem", "sim", "udp"}
	if runtime.GOOS == "linux" {
		want = append(want, "roce")
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
		t.Errorf("exit code %d with summary %v", r.code, sum)
	}
	await(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

// What people read; -q leaves out what needs no doing.
func TestDoctorText(t *testing.T) {
	r := runWith(t.Context(), "", "doctor", "-notest")
	if !strings.HasSuffix(r.stdout, ".\n") || !strings.Contains(r.stdout, "This host is ") || strings.Contains(r.stdout, "self-test;") {
		t.Errorf("exit code %d\n%s", r.code, r.stdout)
	}
	for line := range strings.Lines(runWith(t.Context(), "", "doctor", "-notest", "-q").stdout) {
		if !strings.HasPrefix(line, "warn") && !strings.HasPrefix(line, "fail") && !strings.HasPrefix(line, "      ") {
			t.Errorf("-q writes %q", line)
		}
	}
}

// Each outcome has its exit code.
func TestDoctorExitCodes(t *testing.T) {
	for level, want := range map[doctor.Level]int{doctor.OK: 0, doctor.Info: 0, doctor.Warn: exitWarnings, doctor.Fail: exitIncomplete} {
		var out strings.Builder
		d := &doctorRun{e: &env{stdout: &out}}
		if err := d.tell(doctor.Finding{Area: "test", Level: level, Text: "something", Fix: "do this"}); err != nil {
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

// A self-test that fails says where, and how far it came.
func TestDoctorFailures(t *testing.T) {
	d := &doctorRun{timeout: 200e6}
	for _, c := range []struct {
		f    doctor.Finding
		says string
	}{
		{d.groupTest(t.Context(), "rdma", "roce://no-such-interface"), "no network interface is called"},
		{d.groupTest(t.Context(), "sim", "sim://?loss=1"), "0 of 10 messages"},
		{d.udpTest(t.Context(), "no-such-interface"), "no-such-interface"},
		{d.busTest(t.Context(), "mem", "mem://x?groups=0"), "cannot be opened"},
	} {
		if c.f.Level != doctor.Fail || !strings.Contains(c.f.Text, c.says) {
			t.Errorf("%+v, want a failure with %q", c.f, c.says)
		}
	}
	// Where send-only members are refused, that is no failure.
	if f := d.groupTest(t.Context(), "sim", "sim://?sendonly=off"); f.Level != doctor.Warn || !strings.Contains(f.Text, "no send-only members") {
		t.Errorf("%+v", f)
	}
}

func TestDoctorWrongUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"eth0", "no arguments"},
		{"-timeout 0s", "more than 0"},
		{"-timeout 5", "500ms"},
		{"-notest -iface lo", "one of them"},
		{"-nope", "-nope"},
	} {
		r := runWith(t.Context(), "", append([]string{"doctor"}, strings.Fields(c.args)...)...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, c.says) {
			t.Errorf("fanfare doctor %s: exit code %d, standard output %q, standard error %q", c.args, r.code, r.stdout, r.stderr)
		}
	}
}
