package elsewhere

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// A bus is there once, however often it is read: what comes first stays. What is another instance,
// another process, or did not answer, stays, too.
func TestUnite(t *testing.T) {
	of := func(socket string, pid int, buses ...string) inspect.Seen {
		s := inspect.Seen{Socket: socket, Snapshot: &inspect.Snapshot{Process: inspect.Process{PID: pid, Host: "h", Started: time.Unix(5, 0)}}}
		for _, id := range buses {
			id, epoch, _ := strings.Cut(id, "/")
			s.Snapshot.Buses = append(s.Snapshot.Buses, inspect.Bus{Identity: inspect.Identity{ID: id, Epoch: uint64(len(epoch))}})
		}
		return s
	}
	failed := func(socket string) inspect.Seen { return inspect.Seen{Socket: socket, Err: errors.New("deaf")} }
	for name, c := range map[string]struct {
		seen []inspect.Seen
		want string
	}{
		"nothing":              {nil, ""},
		"twice":                {[]inspect.Seen{of("/run/1", 1, "a", "b"), of("h:1 /run/1", 1, "a", "b")}, "/run/1 a b"},
		"thrice, and more":     {[]inspect.Seen{of("x", 1, "a"), of("y", 1, "a"), of("z", 1, "a", "b"), of("z", 2, "c")}, "x a; z b; z c"},
		"another instance":     {[]inspect.Seen{of("x", 1, "a"), of("y", 1, "a/2")}, "x a; y a"},
		"no buses":             {[]inspect.Seen{of("x", 1), of("y", 1), of("z", 2)}, "x; z"},
		"has not answered":     {[]inspect.Seen{failed("x"), of("h:1 x", 1, "a"), failed("h:1"), failed("x")}, "x!; h:1 x a; h:1!"},
		"buses of one process": {[]inspect.Seen{of("x", 1, "a", "a")}, "x a"},
	} {
		var got []string
		for _, s := range unite(c.seen) {
			text := s.Socket
			if s.Err != nil {
				text += "!"
			} else {
				for _, b := range s.Snapshot.Buses {
					text += " " + b.ID
				}
			}
			got = append(got, text)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A host that is named twice, or by two of its addresses, is there once.
func TestHostNamedTwice(t *testing.T) {
	t.Setenv(inspect.Variable, filepath.Join(t.TempDir(), "none"))
	h := Handler(func(context.Context) ([]inspect.Seen, error) {
		return []inspect.Seen{process(7, "trade2"), process(8, "trade2")}, nil
	})
	a, b := serve(t, h), serve(t, h)
	seen, err := ReadAll(t.Context(), a, a, "http://"+a+"/", b, Here)
	if err != nil || len(seen) != 2 || slices.ContainsFunc(seen, func(s inspect.Seen) bool { return !strings.HasPrefix(s.Socket, a) }) {
		t.Errorf("%+v, %v", seen, err)
	}
}

// Who has no place of this host has nothing to pass on, and says so.
func TestReadHere(t *testing.T) {
	t.Setenv(inspect.Variable, filepath.Join(t.TempDir(), "none"))
	for places, want := range map[string]error{"": nil, "here": nil, "here h:1": nil, "h:1": ErrNotHere, "h:1 i:2": ErrNotHere} {
		seen, err := ReadHere(t.Context(), strings.Fields(places)...)
		if err != want || len(seen) != 0 {
			t.Errorf("%q: %v, %v", places, seen, err)
		}
	}
	a := serve(t, Handler(func(ctx context.Context) ([]inspect.Seen, error) { return ReadHere(ctx, "h:1") }))
	seen, _ := ReadAll(t.Context(), a)
	if len(seen) != 1 || !strings.Contains(fmt.Sprint(seen[0].Err), "shows other hosts only") {
		t.Errorf("%+v", seen)
	}
}
