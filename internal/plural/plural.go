// Package plural formats numbers with nouns, and durations, for output.
package plural

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// N returns a number with its noun, with an s, es or ies in the plural: "1 gap", "2 gaps", "2 buses", "2 copies".
func N[T ~int | ~int64 | ~uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		noun += "e"
	} else if stem, y := strings.CutSuffix(noun, "y"); y && !strings.HasSuffix(stem, "e") {
		noun = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Nth returns an ordinal number: "1st", "12th", "32nd".
func Nth(n uint64) string {
	end := "th"
	if n/10%10 != 1 && n%10 < 4 {
		end = []string{"th", "st", "nd", "rd"}[n%10]
	}
	return strconv.FormatUint(n, 10) + end
}

// Duration formats d with three digits, or down to tenths of a second: "325ms", "1.78s", "1m23.5s".
func Duration(d time.Duration) string {
	unit := time.Nanosecond
	for unit < 100*time.Millisecond && d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
