package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// datapath are the packages that process messages. All buses of a process share their variables.
var datapath = []string{
	"pubsub", "reliable", "internal/topics", "internal/discovery", "transport", "transport/udp", "transport/shm", "transport/mem", "transport/sealed", "transport/signed", "transport/ud",
	"internal/engine", "internal/gid", "internal/ring", "internal/sys", "internal/prefetch",
}

// processWide are the variables of these packages, except errors. Tables are read-only.
var processWide = map[string][]string{
	"tables": {
		"internal/engine.heardPublisher", "internal/engine.whyNoSubscriber", "internal/engine.reasonOf",
		"internal/sys.RoomForUID", "internal/sys.segmentRoom", "pubsub.clockForm",
		"pubsub.flowForms", "pubsub.waits", "internal/discovery.helloFirst", "internal/topics.namedBefore", "transport/sealed.reasons", "transport/shm.options", "transport/shm.ring",
		"transport/signed.ofKeys", "transport/signed.ofTrust", "transport/signed.weakKeys", "transport/ud.defaultRange", "transport/udp.defaultRange",
		"transport/udp.limits", "transport/udp.options", "internal/engine.epoch", "pubsub.hostClock",
	},
	"set only by tests": {"internal/engine.Rest"},
	"two numbers without a lock, used by the few messages that read the clock": {"internal/engine.process"},
	"locked when an endpoint opens, closes or begins to wait":                  {"transport/mem.registry", "internal/sys.waiters"},
}

// Variables shared by all buses of a process need a reason: a lock among them would be contended by the messages of
// all buses.
func TestProcessWide(t *testing.T) {
	var known, seen []string
	for _, names := range processWide {
		known = append(known, names...)
	}
	for _, pkg := range datapath {
		paths, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pkg, len(paths), err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range variables(f) {
				if strings.HasPrefix(name, "Err") || strings.HasPrefix(name, "err") {
					continue
				}
				name = pkg + "." + name
				if seen = append(seen, name); !slices.Contains(known, name) {
					t.Errorf("%s has %s, which all buses of a process share: make it a field, or add it to processWide with the reason", path, name)
				}
			}
		}
	}
	for _, name := range known {
		if !slices.Contains(seen, name) {
			t.Errorf("%s does not exist any more: remove it from processWide", name)
		}
	}
}

// variables returns the names of a file's variables.
func variables(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			for _, n := range s.(*ast.ValueSpec).Names {
				if n.Name != "_" {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}
