package shm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
	"github.com/fanfaremq/fanfare/transport/transporttest"
)

// TestConformance runs the suite between endpoints of one process, which map the same files several times.
// docs/protocol §28.3, §28.4, §28.5.
func TestConformance(t *testing.T) {
	for _, withFaults := range []bool{false, true} {
		t.Run(map[bool]string{false: "bare", true: "faulty"}[withFaults], func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
				dir := ownDir(t)
				return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
					tr := mustOpen(t, Config{Name: "suite", Dir: dir, QueueTrains: o.Queue, Peers: o.Peers})
					if withFaults {
						return faulty.New(tr, faulty.Config{})
					}
					return tr
				}}
			})
		})
	}
}

// Trains of other users are copied. Everything else is the same. docs/protocol §28.7.
func TestConformanceOfOtherUsers(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
		dir := ownDir(t)
		return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
			return mustOpen(t, Config{Name: "suite", Dir: dir, QueueTrains: o.Queue, Peers: o.Peers, distrust: true})
		}}
	})
}

// ownDir makes a directory for the fabrics of one test, which must be empty at its end.
func ownDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(DefaultDir, "fanfare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left := files(dir); len(left) > 0 && !t.Failed() {
			t.Errorf("files left in %s: %q, want none", dir, left)
		}
		os.RemoveAll(dir)
	})
	return dir
}

// files returns the paths of everything below a directory.
func files(dir string) (all []string) {
	filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != dir {
			all = append(all, path)
		}
		return nil
	})
	return all
}

func mustOpen(t testing.TB, cfg Config) *Transport {
	t.Helper()
	tr, err := open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func end(tr *Transport) {
	tr.Close()
	for b := transport.NewBatch(1); tr.Poll(b) == nil; {
		tr.Wait(-1)
	}
}
