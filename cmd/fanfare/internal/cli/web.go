package cli

import (
	"context"
	"errors"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/web"
)

type webPage struct {
	listen string
	remote bool
	json   bool
	quiet  bool
	looked
}

type jsonPage struct {
	Type string `json:"type"` // "page"
	URL  string `json:"url"`
}

func (w *webPage) run(ctx context.Context, e *env) (err error) {
	read, closeIt, err := w.open(ctx)
	if err != nil {
		return err // and not a page that says so
	}
	defer closeIt()
	s, err := web.Serve(w.listen, w.remote, read)
	var local *web.LocalError
	switch {
	case errors.As(err, &local):
		return usagef("-listen %s: %w: add -remote if they may", w.listen, err)
	case err != nil:
		return &usageError{err}
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	url := "http://" + s.Addr() + "/"
	if w.json {
		if err := newJSONLines(e.stdout).write(&jsonPage{"page", url}); err != nil {
			return err
		}
	}
	if !w.quiet {
		e.console.line("the page is at %s; interrupt to end", url)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func webCommand() command {
	return command{
		name:    "web",
		summary: "show what goes on at the buses of this host on a web page, live",
		usage:   "fanfare web [flags] [PLACE...]",
		about: `It serves one page: rates, losses and the time to repair, publishers and their
subscribers, slow ones, what was lost and what to do about it, and events as they
come. It reads the sockets of processes once a second, as fanfare loss does, and
changes nothing.

` + placeHelp + `
With -t it listens to a fabric, too, and shows publishers there that were not asked.`,
		notes: `The page has no login. Any client that can connect to the address sees names,
addresses and rates, and no messages. So it is served to this host only, unless
-remote says that others may see it, too. To see it from another host without
that: ssh -L 9465:localhost:9465 HOST, and http://localhost:9465 there.`,
		examples: `fanfare web
fanfare web -listen localhost:8080
fanfare web -listen 10.0.0.5:9465 -remote`,
		flags: flagsOf(func() *webPage { return new(webPage) }),
	}
}

func (w *webPage) register(fs *flagSet) {
	stringVar(fs, &w.listen, "listen", "localhost:9465", "serve the page at the TCP address `ADDR`; port 0 is any that is free")
	w.registerWire(fs)
	boolVar(fs, &w.remote, "remote", "let other hosts see the page, too")
	boolVar(fs, &w.json, "json", "the address as a JSON object on standard output")
	boolVar(fs, &w.quiet, "q", "nothing on standard error but failures")
}

func (w *webPage) check(_ *flagSet, operands []string) error {
	if w.listen == "" {
		return usagef("-listen is empty: give an address such as localhost:9465")
	}
	w.places = operands
	return nil
}
