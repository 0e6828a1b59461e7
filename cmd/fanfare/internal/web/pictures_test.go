//go:build unix

package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

var pictures = flag.Bool("web.pictures", false, "draw the pictures of the page in docs/operate anew: it takes a minute and a half")

// views are the pictures of docs/operate/web.md.
var views = []struct {
	name       string
	wide, tall int
	dark       bool
}{
	{"web-light", 1280, 1700, false}, {"web-dark", 1280, 1700, true}, {"web-phone-light", 390, 1700, false}, {"web-phone-dark", 390, 1700, true},
}

// drawnOf has the hash of the page of which the pictures were drawn.
const drawnOf = "../../../../docs/operate/web-pictures.sha256"

// hashOf returns a hash of all files that determine the page's appearance.
func hashOf(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	for _, name := range []string{"page.html", "style.css", "app.js", "map.js"} {
		b, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)) + "\n"
}

// The pictures of the page in the documents exist, are small, and match the current page. -web.pictures draws them
// from processes that publish and subscribe on loopback, with loss and with a slow subscriber.
func TestPictures(t *testing.T) {
	for _, v := range views {
		path := filepath.Join("../../../../docs/operate", v.name+".png")
		if *pictures {
			continue
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() > 150<<10 {
			t.Errorf("picture %s: %v, error %v, want at most 150 KiB", path, info, err)
		}
	}
	if !*pictures {
		if b, err := os.ReadFile(drawnOf); err != nil || string(b) != hashOf(t) {
			t.Errorf("the pictures of docs/operate are of another page than this (%v): go test ./cmd/fanfare/internal/web -run TestPictures -web.pictures draws them anew", err)
		}
		return
	}
	defer func() {
		if !t.Failed() {
			if err := os.WriteFile(drawnOf, []byte(hashOf(t)), 0o644); err != nil {
				t.Error(err)
			}
		}
	}()
	dir := testenv.BusyHost(t, "../../../..", inspect.Variable)
	b := startBrowser(t)
	s := serve(t, "localhost:0", func(ctx context.Context) ([]inspect.Seen, error) { return inspect.ReadAll(ctx, dir) })
	defer s.Close()
	time.Sleep(75 * time.Second)
	for _, v := range views {
		b.open("http://"+s.Addr()+"/", v.wide, v.tall, v.dark)
		b.await(`document.querySelectorAll("canvas").length === 5 && document.querySelectorAll("#map rect").length >= 3`)
		time.Sleep(2500 * time.Millisecond)
		shot := b.call("Page.captureScreenshot", map[string]any{"format": "png"})["data"].(string)
		raw, err := base64.StdEncoding.DecodeString(shot)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("../../../../docs/operate", v.name+".png"), small(t, raw), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// small returns a picture with 255 colours, which are enough for the page.
func small(t *testing.T, raw []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	bounds, used := full.Bounds(), make(map[color.RGBA]int)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(full.At(x, y)).(color.RGBA) }
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			used[at(x, y)]++
		}
	}
	var all []color.RGBA
	for c := range used {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int { return cmp.Compare(used[b], used[a]) })
	var palette color.Palette
	for _, c := range all[:min(len(all), 255)] {
		palette = append(palette, c)
	}
	index := make(map[color.RGBA]uint8)
	for _, c := range all {
		index[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(bounds, palette)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			out.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
