package cli

import (
	"context"
	"errors"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/web"
)

// webPage serves the page of this host's buses.
type webPage struct {
	listen string
	remote bool
	json   bool
	quiet  bool
	looked
}

// jsonPage says where the page is.
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
