//go:build unix

package top

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

var pictures = flag.Bool("top.pictures", false, "draw the pictures of docs/operate/inspect.md anew: it takes half a minute")

// drawn are the views of docs/operate/inspect.md.
var drawn = []string{"topics", "losses"}

// The pictures of top in the documents exist and match the current output. -top.pictures draws them
// from processes that publish and subscribe on loopback, with loss and with a slow subscriber.
func TestPictures(t *testing.T) {
	path := func(view string) string { return filepath.Join("../../../../docs/operate", "top-"+view+".svg") }
	if *pictures {
		dir := testenv.BusyHost(t, "../../../..", inspect.Variable)
		o := Options{Read: func(ctx context.Context) ([]inspect.Seen, error) { return inspect.ReadAll(ctx, dir) }}
		time.Sleep(20 * time.Second)
		before, err := o.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		now, err := o.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, view := range drawn {
			s := NewScreen(o.Where())
			s.Width, s.Height, s.Colour = 132, 16, true
			s.Start(view, "")
			s.Show(Between(before, now))
			if err := os.WriteFile(path(view), []byte(picture(s)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, view := range drawn {
		b, err := os.ReadFile(path(view))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(b), hashComment(view)) {
			t.Errorf("%s is not what top draws any more: go test ./cmd/fanfare/internal/top -run TestPictures -top.pictures draws it anew", path(view))
		}
	}
}

// hashComment is a comment with a hash of how top draws the view of a fixed scene. A change of the
// output requires new pictures.
func hashComment(view string) string {
	s := NewScreen("")
	s.Width, s.Height = 132, 16
	s.Start(view, "")
	s.Show(Between(scene()))
	return fmt.Sprintf("<!-- drawn by top as of %x -->\n", sha256.Sum256([]byte(s.Text())))
}

// picture returns the screen, as a terminal shows it, as SVG.
func picture(s *Screen) string {
	const column, row, margin = 7.25, 17, 14
	attributes := map[style]string{
		bold: `fill="#f0f6fc" font-weight="700"`, dim: `fill="#9198a1"`, reversed: `fill="#0d1117"`, yellow: `fill="#e3b341"`, red: `fill="#ff7b72"`,
	}
	lines := strings.Split(strings.TrimRight(s.Text(), "\n"), "\n")
	wide, tall := 2*margin+column*float64(s.Width), 2*margin+row*len(lines)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12">`+"\n", wide, tall, wide, tall)
	fmt.Fprintf(&b, "<title>fanfare top, the view %s</title>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#0d1117\"/>\n", viewNames[s.view])
	for i, text := range lines {
		attribute, top := `fill="#d1d7e0"`, margin+row*i
		for st, as := range attributes {
			if rest, ok := strings.CutPrefix(text, string(st)); ok {
				text, attribute = strings.TrimSuffix(rest, reset), as
				if st == reversed {
					fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%d\" fill=\"#d1d7e0\"/>\n", margin-3, top, column*float64(s.Width)+6, row)
				}
			}
		}
		if text != "" {
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" textLength=\"%.1f\" %s>%s</text>\n", margin, top+13, column*float64(width(text)), attribute, strings.ReplaceAll(html.EscapeString(text), " ", "\u00a0")) // others are drawn as one
		}
	}
	return b.String() + "</svg>\n" + hashComment(viewNames[s.view])
}

func TestCountsOfOne(t *testing.T) {
	if got := (&Options{Places: []string{"a", "b", "c", "d", "e"}}).Where(); got != "a, b, c, d and 1 other" {
		t.Errorf(`places %q, want "a, b, c, d and 1 other"`, got)
	}
	if got := (&Figures{}).groupDetail(&Group{Unjoined: 1}); !slices.Contains(got, [2]string{"not joined", "1 bus, waiting to join it"}) {
		t.Errorf(`details %q lack "1 bus, waiting to join it"`, got)
	}
}
