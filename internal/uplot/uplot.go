// Package uplot holds the release files of uPlot, a chart library in JavaScript (https://github.com/leeoniya/uPlot, MIT
// licence), as its npm package has them. A page that has Style in a style element and Script in a script element draws
// charts with the constructor uPlot, and needs no other file.
package uplot

import _ "embed"

// Version is the release. To change it replace the files by those of "npm pack uplot@VERSION".
const Version = "1.6.32"

var (
	//go:embed uPlot.iife.min.js
	code string
	//go:embed LICENSE
	license string
	// Style is the style sheet.
	//go:embed uPlot.min.css
	Style string
	// Script is the library with its licence, which every copy must include.
	Script = "/*\n" + license + "\n*/\n" + code
)
