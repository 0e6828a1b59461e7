package uplot

import (
	"strings"
	"testing"
)

// The files have the stated version, and can be embedded in a page.
func TestFiles(t *testing.T) {
	if !strings.HasPrefix(code, "/*! https://github.com/leeoniya/uPlot (v"+Version+") */") {
		t.Errorf("the version of the code is not %s: %.80s", Version, code)
	}
	for name, text := range map[string]string{"script": Script, "style": Style} {
		if strings.Contains(text, "</"+name) || strings.Contains(text, "<!--") {
			t.Errorf("the %s ends its element", name)
		}
	}
	if !strings.Contains(Script, "The MIT License") || !strings.Contains(Script, "var uPlot=function") || !strings.Contains(Style, ".u-legend") {
		t.Error("the licence, the code or the style is missing")
	}
}
