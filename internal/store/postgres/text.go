package postgres

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// trigramLength is the length of the trigrams into which the index of texts splits words, in characters.
	trigramLength = 3
	// maxWords is the largest number of words of a text that the index looks for. The tasks that contain maxWords words are few,
	// so examining each of them takes less time than looking for more words.
	maxWords = 4
)

// addText adds the condition that a task contains the text, in any case. The index of texts finds the tasks that contain the
// longest words of the text, and then each of these tasks is examined. The index could also find the whole text, but that
// takes about twice as long, because it would also look for the beginnings and ends of the words, which many tasks contain.
func (c *clause) addText(text string) {
	text = strings.ToLower(text)
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	words = slices.DeleteFunc(words, func(w string) bool { return utf8.RuneCountInString(w) < trigramLength })
	if len(words) < 2 {
		c.addLike(text)
		return
	}
	slices.SortFunc(words, func(a, b string) int {
		return cmp.Or(cmp.Compare(utf8.RuneCountInString(b), utf8.RuneCountInString(a)), strings.Compare(a, b))
	})
	words = slices.Compact(words)
	for _, w := range words[:min(len(words), maxWords)] {
		c.addLike(w)
	}
	c.addContains(text)
}

// addLike adds the condition that a task contains the text, which must be in lower case. The database can use the index of
// texts for it.
func (c *clause) addLike(text string) {
	c.add(`search LIKE ?`, "%"+strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)+"%")
}

// addContains adds the same condition as addLike in a form that takes less time for each task, but cannot use the index.
func (c *clause) addContains(text string) { c.add(`strpos(search, ?) > 0`, text) }
