package top

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
)

// step is how a number is written from a value on, in a unit.
type step struct {
	from, unit float64
	format     string
}

// scaled writes a number by the first step that it reaches; one that reaches none, or is not known, is a dash.
func scaled(x float64, steps []step) string {
	for _, s := range steps {
		if x >= s.from {
			return fmt.Sprintf(s.format, x/s.unit)
		}
	}
	return "-"
}

var (
	digits = []step{{999.5e9, 1e12, "%.2fT"}, {999.5e6, 1e9, "%.2fG"}, {999.5e3, 1e6, "%.2fM"}, {9995, 1e3, "%.1fk"}, {0, 1, "%.0f"}}
	sizes  = []step{{1 << 30, 1 << 30, "%.1f GiB"}, {1 << 20, 1 << 20, "%.1f MiB"}, {1 << 10, 1 << 10, "%.0f KiB"}, {0, 1, "%.0f B"}}
	micros = []step{{999.5e3, 1e6, "%.1f s"}, {9995, 1e3, "%.1f ms"}, {math.SmallestNonzeroFloat64, 1, "%.0f µs"}}
)

func si(x float64) string         { return scaled(x, digits) }
func bytesText(n float64) string  { return scaled(n, sizes) }
func microText(us float64) string { return scaled(us, micros) }

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
