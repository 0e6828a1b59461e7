package fabricurl

import "testing"

// SharedDir returns the directory of shared memory from a URL, with any other options.
func TestSharedDir(t *testing.T) {
	for url, want := range map[string]string{
		"shm://desk": "/dev/shm", "shm://desk?dir=/mnt/fast": "/mnt/fast", "shm://desk?queue=7&dir=%2Fmnt%2Fa%20b&keys=k&trust=t&map=prefix:2": "/mnt/a b",
		"udp://239.1.0.0/16?dir=/no": "", "shm://?dir=/no": "", "shm://desk?dir=/no&unknown=1": "", "://": "", "desk": "", "": "",
	} {
		if got, ok := SharedDir(url); ok != (want != "") || ok && got != want {
			t.Errorf("SharedDir(%q) = %q, %v, want %q", url, got, ok, want)
		}
	}
}
