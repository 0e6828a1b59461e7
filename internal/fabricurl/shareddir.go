package fabricurl

import (
	"cmp"

	"github.com/fanfaremq/fanfare/transport/shm"
)

// SharedDir returns the directory with the files of a URL's fabric. It returns false for URLs of other schemes than
// shm, and invalid ones.
func SharedDir(rawURL string) (dir string, ok bool) {
	f, err := Parse(rawURL)
	if err != nil || f.url.Scheme != "shm" {
		return "", false
	}
	cfg, err := shm.Parse(f.own)
	return cmp.Or(cfg.Dir, shm.DefaultDir), err == nil
}
