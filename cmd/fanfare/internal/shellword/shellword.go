// Package shellword writes texts as words of a shell, for the commands that people are advised to type.
package shellword

import "strings"

// Of is a text as one word of a shell: other users choose the names of directories, and the user that types the command
// may be root.
func Of(text string) string {
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

const plain = "/-_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // what needs no quotes
