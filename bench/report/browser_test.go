package report

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// open opens the page of the suite in a browser, and returns its output.
func open(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(write(t, suite())), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--enable-logging=stderr", "--virtual-time-budget=10000"}, args...)
	var output strings.Builder
	cmd := testenv.Browser(t, append(args, "file://"+path)...)
	cmd.Stderr = &output
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the browser failed: %v: %s", err, output.String())
	}
	if m := complaint.FindString(output.String()); m != "" {
		t.Errorf("the page's script reports an error: %s", m)
	}
	return string(out)
}

// complaint matches a line of the browser's log about a failed script or a violated policy. The
// browser also logs other remarks, such as a slow script.
var complaint = regexp.MustCompile(`(?m)^.*(:ERROR:CONSOLE|:CONSOLE.*(Uncaught|Refused|violates)).*$`)

// A browser draws every chart, in light and dark colours, in the widths of a phone and of a screen.
func TestInBrowser(t *testing.T) {
	testenv.Slow(t)
	dom := open(t, "--dump-dom")
	if n := strings.Count(dom, "<canvas"); n != 2 {
		t.Errorf("%d charts drawn, want 2", n)
	}
	for _, want := range []string{`class="u-marker k0 d0"`, `class="u-marker k1 d1"`, "percentile of messages"} {
		if !strings.Contains(dom, want) {
			t.Errorf("the drawn page lacks %s", want)
		}
	}
	var light, dark = color.RGBA{0x0f, 0x76, 0x6e, 255}, color.RGBA{0x2d, 0xd4, 0xbf, 255} // --c0
	for _, c := range []struct {
		width  int
		scheme string
		want   color.RGBA
		not    color.RGBA
	}{{1280, "1", light, dark}, {360, "1", light, dark}, {1280, "0", dark, light}} {
		shot := filepath.Join(t.TempDir(), "page.png")
		open(t, "--screenshot="+shot, fmt.Sprintf("--window-size=%d,9000", c.width), "--blink-settings=preferredColorScheme="+c.scheme)
		f, err := os.Open(shot)
		if err != nil {
			t.Fatal(err)
		}
		page, err := png.Decode(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		// Facts and bars have the same colour. The last chart is outside the picture.
		if wide := page.Bounds().Dx(); wide != c.width {
			t.Errorf("the picture is %d pixels wide, want %d", wide, c.width)
		}
		if n := count(page, c.want); n < 1000 {
			t.Errorf("width %d, scheme %s: %d pixels of the first colour, want 1000 or more", c.width, c.scheme, n)
		}
		if n := count(page, c.not); n > 0 {
			t.Errorf("width %d, scheme %s: %d pixels of the other scheme's first colour, want none", c.width, c.scheme, n)
		}
	}
}

func count(page image.Image, want color.RGBA) (n int) {
	at := page.(interface{ RGBAAt(x, y int) color.RGBA }).RGBAAt // *image.RGBA, for a picture without transparency
	for y := range page.Bounds().Dy() {
		for x := range page.Bounds().Dx() {
			if at(x, y) == want {
				n++
			}
		}
	}
	return n
}
