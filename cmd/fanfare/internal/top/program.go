package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

type Options struct {
	Places   []string // that are looked at, for people; empty: inspect.Dirs
	Read     func(context.Context) ([]inspect.Seen, error)
	Interval time.Duration
	View     string // its name; empty: topics
	Filter   string
}

const maxPlaces = 4 // maximum number of named places: each user has one, and root reads those of all

func (o *Options) Where() string {
	where := o.Places
	if len(where) == 0 {
		where = inspect.Dirs()
	}
	if n := len(where); n > maxPlaces {
		return fmt.Sprintf("%s and %s", strings.Join(where[:maxPlaces], ", "), count(n-maxPlaces, "other"))
	}
	return strings.Join(where, ", ")
}

// answerWithin is how long a process may take to answer. One that is stopped must not keep others from being seen.
const answerWithin = 700 * time.Millisecond

func (o *Options) Observe(ctx context.Context) (Observation, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	seen, err := o.Read(ctx)
	return Observation{time.Now(), seen}, err
}

// framesPerSecond is how often the screen is looked at for what has changed: every key is answered within 100 ms. 60
// times a second, as it is by default, wakes threads 400 times a second, on processors that others want.
const framesPerSecond = 10

// Run shows what is to be seen on a terminal until a key or ctx ends it.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	s := NewScreen(o.Where())
	s.Colour = true // of which the terminal, and NO_COLOR, get as much as they want
	s.Start(o.View, o.Filter)
	p := tea.NewProgram(&program{ctx: ctx, o: o, s: s}, tea.WithContext(ctx), tea.WithInput(in),
		tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	_, err := p.Run()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

type program struct {
	ctx  context.Context
	o    Options
	s    *Screen
	last Observation
}

type observed struct {
	o   Observation
	err error
}

type again struct{}

func (p *program) observe() tea.Msg {
	o, err := p.o.Observe(p.ctx)
	return observed{o, err}
}

func (p *program) Init() tea.Cmd { return p.observe }

func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.s.Width, p.s.Height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if p.s.Key(msg.String(), msg.Text) {
			return p, tea.Quit
		}
	case observed:
		if msg.err != nil {
			p.s.Fail(msg.err)
		} else {
			p.s.Show(Between(p.last, msg.o))
			p.last = msg.o
		}
		wait := p.o.Interval
		if p.last.Time.IsZero() || msg.err == nil && p.s.rateless() {
			wait = min(wait, firstInterval) // rates need two
		}
		return p, tea.Tick(wait, func(time.Time) tea.Msg { return again{} })
	case again:
		return p, p.observe
	}
	return p, nil
}

const firstInterval = 300 * time.Millisecond // the time between the first two observations: rates are wanted soon

func (p *program) View() tea.View {
	v := tea.NewView(p.s.Text())
	v.AltScreen, v.WindowTitle = true, "fanfare top"
	return v
}

func (s *Screen) rateless() bool { return s.figures != nil && s.figures.Interval == 0 }

func Write(w io.Writer, f *Figures, view, filter string, columns int) error {
	s := NewScreen("")
	s.figures, s.Width = f, columns
	out := writer{width: columns}
	s.header(&out)
	_, others := f.counts()
	for i, name := range viewNames {
		if view != "" && name != view {
			continue
		}
		t := f.table(i)
		rows := matching(t.sorted(t.sort, false), filter)
		s.view = i
		if len(rows) == 0 {
			if view != "" {
				out.line(plain, t.empty)
			}
			continue
		}
		out.line(plain, "")
		out.line(plain, strings.ToUpper(t.name))
		s.page = len(rows)
		s.table(&out, t, rows, -1)
		if i == 0 && others > 0 {
			out.line(plain, fmt.Sprintf("  and %d more, with fewer messages: a process lists %d topics of a bus at most", others, inspect.MaxTopics))
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(out.out, "\n"))
	return err
}

func Views() []string { return append([]string(nil), viewNames...) }
