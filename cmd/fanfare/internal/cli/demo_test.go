package cli

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

func demoResult(t *testing.T, args ...string) demoReport {
	t.Helper()
	r := runWith(t.Context(), "", append([]string{"demo", "-json"}, args...)...)
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("fanfare demo %v: exit code %d, standard error %q, want 0 and nothing; standard output %s", args, r.code, r.stderr, r.stdout)
	}
	var got demoReport
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// The demo reports losses and repairs, the members, and that every subscriber received everything.
func TestDemo(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, c := range []struct {
		args              string
		publisher, member string // their states
	}{
		{"", "send-only full member (0x8)", "full member (0x1)"},
		{"-flavor roce", "none: senders need no IGMP report", "IGMP member"},
	} {
		got := demoResult(t, append(strings.Fields(c.args), "-n", "2000", "-loss", "0.05")...)
		if !got.Complete || got.Messages != 2000 || len(got.Subscribers) != 3 || len(got.Members) != 4 || got.Error != "" {
			t.Fatalf("demo %s: result %+v, want 2000 messages, complete, 3 subscribers, 4 members and no error", c.args, got)
		}
		if got.Lost == 0 || got.NAKs == 0 || got.Repairs == 0 || got.Data == 0 || got.Sent < got.Data+got.Repairs {
			t.Errorf("demo %s reports no losses and repairs: %+v", c.args, got)
		}
		if m := got.Members[0]; m.Role != "publisher" || m.State != c.publisher {
			t.Errorf("demo %s: publisher is %+v, want role publisher, state %q", c.args, m, c.publisher)
		}
		for i, s := range got.Subscribers {
			if m := got.Members[i+1]; m.Role != "subscriber" || m.State != c.member || m.Host != s.Host {
				t.Errorf("demo %s: subscriber is %+v, want role subscriber, state %q, host %q", c.args, m, c.member, s.Host)
			}
			if s.Messages != 2000 || s.Missing == 0 || s.Fault != "" {
				t.Errorf("demo %s: subscriber %+v, want 2000 messages, some missing and no fault", c.args, s)
			}
		}
		if (got.MLID == "") != strings.Contains(c.args, "roce") || got.MGID == "" {
			t.Errorf("demo %s: MGID %q, MLID %q, want an MGID, and an MLID except on RoCE", c.args, got.MGID, got.MLID)
		}
	}
	testenv.AwaitGoroutines(t, before)
}

func TestDemoText(t *testing.T) {
	r := runWith(t.Context(), "", "demo", "-n", "1", "-subscribers", "1", "-loss", "0")
	for _, wantText := range []string{"InfiniBand", "MGID ff12:", "MLID 0xc001", "send-only", "1 message of 200", "1 copy", "The subscriber received 1 message in order, exactly once"} {
		if !strings.Contains(r.stdout, wantText) {
			t.Errorf("the text lacks %q:\n%s", wantText, r.stdout)
		}
	}
	if r.code != 0 || r.stderr != "" {
		t.Errorf("exit code %d, standard error %q, want 0 and nothing", r.code, r.stderr)
	}
}

// A failure is reported, with an exit code.
func TestDemoFails(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if r := runWith(ctx, "", "demo"); r.code == 0 || !strings.Contains(r.stderr, "enough") {
		t.Errorf(`cancelled demo ended with %+v, want another exit code than 0 and "enough" in standard error`, r)
	}
	for args, wantText := range map[string]string{
		"demo extra":            "no arguments",
		"demo -subscribers 0":   "from 1",
		"demo -subscribers 65":  "to 64",
		"demo -n 0":             "more than 0",
		"demo -n -1":            "not negative",
		"demo -loss 1":          "from 0 to 0.99",
		"demo -loss NaN":        "from 0 to 0.99",
		"demo -flavor ethernet": "ib, roce",
	} {
		r := runWith(t.Context(), "", strings.Fields(args)...)
		if r.code != exitUsage || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, wantText) {
			t.Errorf("fanfare %s: %+v; want one line with %q", args, r, wantText)
		}
	}
}
