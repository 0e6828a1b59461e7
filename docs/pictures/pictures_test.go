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

// The pictures in README.md are up to date, and well-formed XML.
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
			t.Errorf("%s is out of date: run go run ./docs/pictures", name)
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

// Each figure of the plot is in docs/performance.md, and in the alternative text of the plot in README.md.
func TestFiguresAreMeasured(t *testing.T) {
	b, err := os.ReadFile("../performance.md")
	if err != nil {
		t.Fatal(err)
	}
	f, err := readFigures()
	if err != nil {
		t.Fatal(err)
	}
	cited := func(name, cite string) {
		if cite == "" || !strings.Contains(string(b), cite) {
			t.Errorf("%s: docs/performance.md does not contain %q: correct figures.json, then run go run ./docs/pictures", name, cite)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	inAltText := func(text string) {
		if !strings.Contains(string(readme), text) {
			t.Errorf("the alternative text of the plot in README.md lacks %q", text)
		}
	}
	ours := 0.0
	for _, r := range f.Throughput {
		if r.Ours {
			ours = r.Value
		}
	}
	for _, r := range f.Throughput {
		cited(r.Name, r.Cite)
		inAltText(r.Name + " " + number(r.Value))
		switch {
		case r.OursOver == 0 && !strings.Contains(r.Cite, strings.TrimSpace(number(r.Value))):
			t.Errorf("%s: %v is not in %q", r.Name, r.Value, r.Cite)
		case r.OursOver != 0 && math.Abs(r.Value*r.OursOver/ours-1) > 0.02:
			t.Errorf("%s: %v is not %v / %v", r.Name, r.Value, ours, r.OursOver)
		case r.OursOver != 0 && !strings.Contains(r.Cite, number(r.OursOver)):
			t.Errorf("%s: %v is not in %q", r.Name, r.OursOver, r.Cite)
		}
	}
	for _, r := range f.Latency {
		cited(r.Name, r.Cite)
		inAltText(fmt.Sprintf("%s %s and %s", r.Name, number(r.P50), number(r.P99)))
		for _, us := range []float64{r.P50, r.P99} {
			if !strings.Contains(r.Cite, number(us)) {
				t.Errorf("%s: %v is not in %q", r.Name, us, r.Cite)
			}
		}
	}
}
