package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

// The pictures that README.md shows are those that the program draws, and each is
// well-formed.
func TestPicturesAreUpToDate(t *testing.T) {
	pictures, err := draw()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pictures {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what is drawn now: go run ./docs/pictures", name)
		}
		if !bytes.Contains(readme, []byte("docs/pictures/"+name)) {
			t.Errorf("README.md does not show %s", name)
		}
		d := xml.NewDecoder(bytes.NewReader(want))
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each figure of the plot stands in docs/performance.md, and in the text of README.md for
// those who do not see the plot.
func TestFiguresAreMeasured(t *testing.T) {
	b, err := os.ReadFile("../performance.md")
	if err != nil {
		t.Fatal(err)
	}
	f, err := readFigures()
	if err != nil {
		t.Fatal(err)
	}
	cited := func(who, cite string) {
		if cite == "" || !strings.Contains(string(b), cite) {
			t.Errorf("%s: docs/performance.md does not say %q: correct figures.json, then go run ./docs/pictures", who, cite)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	told := func(text string) {
		if !strings.Contains(string(readme), text) {
			t.Errorf("README.md does not say %q in the text that stands for the plot", text)
		}
	}
	ours := 0.0
	for _, r := range f.Throughput {
		if r.Ours {
			ours = r.Value
		}
	}
	for _, r := range f.Throughput {
		cited(r.Who, r.Cite)
		told(r.Who + " " + number(r.Value))
		switch {
		case r.OursOver == 0 && !strings.Contains(r.Cite, strings.TrimSpace(number(r.Value))):
			t.Errorf("%s: %v is not in %q", r.Who, r.Value, r.Cite)
		case r.OursOver != 0 && math.Abs(r.Value*r.OursOver/ours-1) > 0.02:
			t.Errorf("%s: %v is not %v / %v", r.Who, r.Value, ours, r.OursOver)
		case r.OursOver != 0 && !strings.Contains(r.Cite, number(r.OursOver)):
			t.Errorf("%s: %v is not in %q", r.Who, r.OursOver, r.Cite)
		}
	}
	for _, r := range f.Latency {
		cited(r.Who, r.Cite)
		told(fmt.Sprintf("%s %s and %s", r.Who, number(r.P50), number(r.P99)))
		for _, us := range []float64{r.P50, r.P99} {
			if !strings.Contains(r.Cite, number(us)) {
				t.Errorf("%s: %v is not in %q", r.Who, us, r.Cite)
			}
		}
	}
}
