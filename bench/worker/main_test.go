package worker

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// TestMain lets the test binary also run as a worker, as bench does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(Main(context.Background(), os.Stdin, os.Stdout, testContenders))
	}
	os.Exit(m.Run())
}

var testContenders = Contenders{
	"calm":   func() Contender { return calm{} },
	"crash":  func() Contender { return crash{} },
	"failed": func() Contender { return failed{} },
}

// calm publishes nothing until it is stopped.
type calm struct{}

func (calm) Publish(ctx context.Context, r *Run) error {
	r.Ready("here")
	r.Begin()
	select {
	case <-r.Stopped():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.Figures(map[string]float64{"calmness": 1})
	r.End(3)
	return nil
}

func (calm) Subscribe(ctx context.Context, r *Run) error { return calm{}.Publish(ctx, r) }

type crash struct{ calm }

func (crash) Publish(context.Context, *Run) error { panic("as a test") }

type failed struct{ calm }

func (failed) Publish(context.Context, *Run) error { return errors.New("as a test") }

func startTest(t *testing.T, spec Spec) *Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(exe, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Abort)
	return p
}

func TestProcess(t *testing.T) {
	before := runtime.NumGoroutine()
	p := startTest(t, Spec{Role: RolePublish, Contender: "calm", Traffic: Traffic{Size: 64}})
	if err := p.Ready(t.Context()); err != nil || p.Address != "here" {
		t.Fatalf(`address %q, error %v, want "here"`, p.Address, err)
	}
	p.Stop()
	reports, err := p.Reports(t.Context())
	if err != nil || len(reports) != 1 || reports[0].Messages != 3 || reports[0].Figures["calmness"] != 1 || reports[0].End <= reports[0].Start {
		t.Errorf("reports %+v, error %v, want one with 3 messages, calmness 1 and the end after the start", reports, err)
	}
	p.Kill()
	p.Kill() // again
	p.Stop() // without effect
	testenv.AwaitGoroutines(t, before)
}

// An abandoned worker ends, and so do its goroutines.
func TestProcessAbandoned(t *testing.T) {
	before := runtime.NumGoroutine()
	p := startTest(t, Spec{Role: RolePublish, Contender: "calm", Traffic: Traffic{Size: 64}})
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.stdin.Close()
	if _, err := p.Reports(t.Context()); err == nil || !strings.Contains(err.Error(), errAbandoned.Error()) {
		t.Errorf("a worker whose input ended fails with %v, want %v", err, errAbandoned)
	}
	p.Kill()
	if !p.cmd.ProcessState.Exited() {
		t.Errorf("the worker %v, want a normal exit", p.cmd.ProcessState)
	}
	testenv.AwaitGoroutines(t, before)
}

func TestProcessErrors(t *testing.T) {
	for _, c := range []struct {
		spec     Spec
		wantText string
	}{
		{Spec{Role: RolePublish, Contender: "unknown"}, `there is no contender "unknown"`},
		{Spec{Role: "idler", Contender: "calm"}, `there is no role "idler"`},
		{Spec{Role: RoleBroker, Contender: "calm"}, "has no broker"},
		{Spec{Role: RolePublish, Contender: "failed"}, "as a test"},
		{Spec{Role: RolePublish, Contender: "crash"}, "panic: as a test"},
	} {
		p := startTest(t, c.spec)
		if err := p.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), c.wantText) {
			t.Errorf("%+v: %v; want an error with %q", c.spec, err, c.wantText)
		}
		p.Abort()
	}
	if p, err := Start("/does/not/exist", Spec{}); err == nil {
		p.Abort()
		t.Error("a missing program was started")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrTimeout)
	p := startTest(t, Spec{Role: RoleSubscribe, Contender: "calm", Traffic: Traffic{Size: 64}})
	if _, err := p.Reports(ctx); !errors.Is(err, ErrTimeout) {
		t.Errorf("a wait whose context ended fails with %v, want %v", err, ErrTimeout)
	}
}

func TestMainWithoutSpec(t *testing.T) {
	for _, in := range []string{"", "{}", "nonsense\n"} {
		var out strings.Builder
		if code := Main(t.Context(), strings.NewReader(in), &out, testContenders); code != 2 || !strings.Contains(out.String(), "specification") {
			t.Errorf("input %q: exit code %d, output %s, want code 2 and an error about the specification", in, code, out.String())
		}
	}
}
