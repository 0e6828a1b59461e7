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
	target
}

type jsonPage struct {
	Type string `json:"type"` // "page"
	URL  string `json:"url"`
}

func (w *webPage) run(ctx context.Context, e *env) (err error) {
	read, closeIt, err := w.open(ctx)
	if err != nil {
		return err // fail instead of serving a page with the error
	}
	defer closeIt()
	s, err := web.Serve(w.listen, w.remote, read)
	var local *web.LocalError
	switch {
	case errors.As(err, &local):
		return usagef("-listen %s: %w: add -remote to allow that", w.listen, err)
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
		e.console.line("serving the page at %s; interrupt to end", url)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func webCommand() command {
	return command{
		name:    "web",
		summary: "show the buses of this host on a live web page",
		usage:   "fanfare web [flags] [PLACE...]",
		about: `It serves one page with rates, losses, repair times, publishers and their subscribers,
slow subscribers, losses with causes and remedies, and events as they happen. It
reads the sockets of processes once a second, as fanfare loss does, and changes
nothing.

` + placeHelp + `
With -t it also listens to a fabric, and shows publishers that run on other hosts.`,
		notes: `The page has no login. Any client that can connect to the address sees names,
addresses and rates, but no messages. It is therefore served to this host only,
unless -remote is given. To view it from another host without -remote, use
ssh -L 9465:localhost:9465 HOST, and open http://localhost:9465 there.`,
		examples: `fanfare web
fanfare web -listen localhost:8080
fanfare web -listen 10.0.0.5:9465 -remote`,
		flags: flagsOf(func() *webPage { return new(webPage) }),
	}
}

func (w *webPage) register(fs *flagSet) {
	stringVar(fs, &w.listen, "listen", "localhost:9465", "serve the page at the TCP address `ADDR`; port 0 selects any free port")
	w.registerWire(fs)
	boolVar(fs, &w.remote, "remote", "let other hosts open the page")
	boolVar(fs, &w.json, "json", "print the address as a JSON object")
	boolVar(fs, &w.quiet, "q", "print only failures on standard error")
}

func (w *webPage) check(_ *flagSet, operands []string) error {
	if w.listen == "" {
		return usagef("-listen is empty: use an address such as localhost:9465")
	}
	w.places = operands
	return nil
}
