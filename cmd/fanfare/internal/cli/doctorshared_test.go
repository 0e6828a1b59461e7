package cli

import (
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
)

// Where buses have their shared memory is learned from their URLs.
func TestSharedDirs(t *testing.T) {
	got, used := sharedDirs([]doctor.Bus{
		{URLs: []string{"udp://239.1.0.0/16?dir=/no", "shm://desk?dir=/mnt/fast"}},
		{URLs: []string{"shm://desk", "shm://two?dir=%2Fmnt%2Ffast&queue=7", "://"}},
		{URLs: []string{"shm://three?dir=/run/desk&keys=desk.keys"}},
	})
	if want := []string{"/dev/shm", "/mnt/fast", "/run/desk"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, dir := range got {
		if !used[dir] {
			t.Errorf("%s is used", dir)
		}
	}
	if got, used := sharedDirs([]doctor.Bus{{URLs: []string{"udp://239.1.0.0/16"}}}); !slices.Equal(got, []string{"/dev/shm"}) || used["/dev/shm"] {
		t.Errorf("%q, used %v, though no bus uses shm://", got, used)
	}
}
