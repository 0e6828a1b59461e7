package losses

import (
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/shellword"
	"github.com/fanfaremq/fanfare/transport/shm"
)

// moreShared is how to have more shared memory, in the directories of the bus.
func moreShared(e *Evidence) string {
	if len(e.Shared) == 0 {
		return Causes()["no_memory"].Remedy
	}
	more := "mount -o remount,size=1G " + sharedDirs(e, "")
	if len(e.Shared) > 1 {
		more = "mount -o remount,size=1G for each"
	}
	if slices.Contains(e.Shared, shm.DefaultDir) {
		more += "; docker run --shm-size=1g"
	}
	return "See what takes the memory (df -h " + sharedDirs(e, "") + "; du -sh " + sharedDirs(e, "/*") + "). Give it more (" + more + "), or use another place (dir= in the URL of all who are to meet). A subscriber that has stopped keeps some, too."
}

// sharedDirs are the directories of the bus's shared memory as words of a shell, each with behind at its end.
func sharedDirs(e *Evidence, behind string) string {
	if len(e.Shared) == 0 {
		return "of the directory of shared memory: dir= in the URL, else /dev/shm"
	}
	words := make([]string, len(e.Shared))
	for i, dir := range e.Shared {
		words[i] = shellword.Of(dir) + behind
	}
	return strings.Join(words, " ")
}
