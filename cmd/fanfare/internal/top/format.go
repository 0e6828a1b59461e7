package top

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
)

// si is a number in three or four digits, with its unit.
func si(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case x >= 999.5e9:
		return fmt.Sprintf("%.2fT", x/1e12)
	case x >= 999.5e6:
		return fmt.Sprintf("%.2fG", x/1e9)
	case x >= 999.5e3:
		return fmt.Sprintf("%.2fM", x/1e6)
	case x >= 9995:
		return fmt.Sprintf("%.1fk", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}

// bytesText is a number of bytes.
func bytesText(n float64) string {
	switch {
	case math.IsNaN(n):
		return "-"
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", n/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", n/(1<<10))
	}
	return fmt.Sprintf("%.0f B", n)
}

// duration is a number of seconds in two units at most; none is a dash.
func duration(s float64) string {
	switch {
	case s <= 0:
		return "-"
	case s < 1:
		return fmt.Sprintf("%.0fms", s*1e3)
	case s < 10:
		return fmt.Sprintf("%.1fs", s)
	case s < 120:
		return fmt.Sprintf("%.0fs", s)
	case s < 7200:
		return fmt.Sprintf("%dm%02ds", int(s)/60, int(s)%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh%02dm", int(s)/3600, int(s)/60%60)
	}
	return fmt.Sprintf("%dd%02dh", int(s)/86400, int(s)/3600%24)
}

// microText is a number of microseconds; none is a dash.
func microText(us float64) string {
	switch {
	case us <= 0:
		return "-"
	case us < 9995:
		return fmt.Sprintf("%.0f µs", us)
	case us < 999.5e3:
		return fmt.Sprintf("%.1f ms", us/1e3)
	}
	return fmt.Sprintf("%.1f s", us/1e6)
}

func clock(t time.Time) string { return t.Format("15:04:05") }

func printable(s string) string { return losses.Printable(s) }

// width is how many columns of a terminal a text takes, as far as each character takes one.
func width(s string) int { return utf8.RuneCountInString(s) }

// fit cuts or pads a text to n columns.
func fit(s string, n int, right bool) string {
	w := width(s)
	switch {
	case n <= 0:
		return ""
	case w > n:
		r := []rune(s)
		return string(r[:n-1]) + "…"
	case right:
		return strings.Repeat(" ", n-w) + s
	}
	return s + strings.Repeat(" ", n-w)
}
