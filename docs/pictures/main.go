// Pictures draws the pictures of README.md for light and dark pages. Run it in the root of the repository:
//
//	go run ./docs/pictures
//
// The figures of the plot are in figures.json.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "docs/pictures", "directory to write the pictures to")
	flag.Parse()
	pictures, err := draw()
	if err != nil {
		log.Fatal(err)
	}
	for name, svg := range pictures {
		if err := os.WriteFile(filepath.Join(*dir, name), svg, 0o644); err != nil {
			log.Fatalf("%v: run this command in the root of the repository, or set -dir", err)
		}
	}
}

// draw returns the pictures by file name.
func draw() (map[string][]byte, error) {
	f, err := readFigures()
	if err != nil {
		return nil, err
	}
	pictures := make(map[string][]byte)
	for _, c := range []*colours{light, dark} {
		pictures["wire-"+c.name+".svg"] = drawWire(c)
		pictures["peers-"+c.name+".svg"] = drawPeers(c, f)
	}
	return pictures, nil
}
