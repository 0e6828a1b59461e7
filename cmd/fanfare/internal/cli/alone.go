package cli

import (
	"net/url"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// sayWaiting is after how long a command says what it waits for.
const sayWaiting = 2 * time.Second

type fabricInside interface {
	Users() int     // endpoints that are on it
	Joined() uint64 // endpoints that ever came to it
}

// fabricOf finds the fabric within the process that a URL names; nil if it is of another kind.
func fabricOf(rawURL string) (scheme string, f fabricInside) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", nil
	}
	switch u.Scheme {
	case "sim":
		if subnet := simnet.Lookup(u.Hostname()); subnet != nil {
			return u.Scheme, subnet
		}
	case "mem":
		if network := mem.Lookup(u.Host); network != nil {
			return u.Scheme, network
		}
	}
	return "", nil
}

// watchAlone says once that the command's bus is on a fabric within the process and that
// nobody else came to it: who starts publisher and subscriber as two commands would wait
// for ever. It does so after sayWaiting, or when the returned function ends the watch.
func (c *common) watchAlone(e *env) (end func()) {
	if c.quiet {
		return func() {}
	}
	return watchAlone(e, c.urls[0])
}

func watchAlone(e *env, rawURL string) (end func()) {
	scheme, f := fabricOf(rawURL)
	if f == nil || f.Users() > 1 {
		return func() {}
	}
	joined := f.Joined()
	say := sync.OnceFunc(func() {
		if f.Joined() == joined {
			e.console.line("%s:// is within this process, and nobody else is on it here: fanfare demo has both sides", scheme)
		}
	})
	timer := time.AfterFunc(sayWaiting, say)
	return func() {
		timer.Stop()
		say()
	}
}
