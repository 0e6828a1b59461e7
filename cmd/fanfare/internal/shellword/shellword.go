// Package shellword quotes texts for the shell, in commands that advice suggests.
package shellword

import "strings"

// Of quotes text as one shell word: other users choose the names of directories, and the user that
// types the command may be root.
func Of(text string) string {
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

const plain = "/-_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // needs no quotes
