package cli

import (
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
)

// The directories for shared memory come from the URLs of buses.
func TestSharedDirs(t *testing.T) {
	got, used := sharedDirs([]doctor.Bus{
		{URLs: []string{"udp://239.1.0.0/16?dir=/no", "shm://desk?dir=/mnt/fast"}},
		{URLs: []string{"shm://desk", "shm://two?dir=%2Fmnt%2Ffast&queue=7", "://"}},
		{URLs: []string{"shm://three?dir=/run/desk&keys=desk.keys"}},
	})
	if want := []string{"/dev/shm", "/mnt/fast", "/run/desk"}; !slices.Equal(got, want) {
		t.Errorf("directories %q, want %q", got, want)
	}
	for _, dir := range got {
		if !used[dir] {
			t.Errorf("%s counts as unused, want used", dir)
		}
	}
	if got, used := sharedDirs([]doctor.Bus{{URLs: []string{"udp://239.1.0.0/16"}}}); !slices.Equal(got, []string{"/dev/shm"}) || used["/dev/shm"] {
		t.Errorf("directories %q, used %v, want /dev/shm, unused, because no bus uses shm://", got, used)
	}
}
