package fabricurl

import (
	"cmp"

	"github.com/fanfaremq/fanfare/transport/shm"
)

// SharedDir is the directory in which the files of a URL's fabric are. It reports false for URLs that are none of
// shared memory, or cannot be used.
func SharedDir(rawURL string) (dir string, ok bool) {
	f, err := Parse(rawURL)
	if err != nil || f.url.Scheme != "shm" {
		return "", false
	}
	cfg, err := shm.Parse(f.own)
	return cmp.Or(cfg.Dir, shm.DefaultDir), err == nil
}
