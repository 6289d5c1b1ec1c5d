package cli

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// cell is one field of a table.
type cell struct {
	text  string
	color color
}

// grid is a table for people. The last column takes what is left of the terminal's width.
type grid struct {
	head []string
	rows [][]cell
}

func newGrid(head ...string) *grid { return &grid{head: head} }

// row adds a row of texts or cells.
func (g *grid) row(fields ...any) {
	row := make([]cell, len(fields))
	for i, f := range fields {
		switch f := f.(type) {
		case cell:
			row[i] = cell{printable(f.text), f.color}
		case string:
			row[i] = cell{text: printable(f)}
		}
		if row[i].text == "" {
			row[i].text = "-"
		}
	}
	g.rows = append(g.rows, row)
}

// statusCell is a cell with the colour of its word.
func statusCell(word string) cell { return cell{word, colorOf(word)} }

const gap = 2

// wideColumn is the width from which on a column makes those behind it hard to find.
const wideColumn = 30

// lastWidth is what is left of the last column at least.
const lastWidth = 12

// render lays the table out for a width in columns, 0 for any. In color the head is bold.
func (g *grid) render(width int, color bool) string {
	widths := g.widths()
	last := len(widths) - 1
	if width > 0 {
		rest := width
		for _, w := range widths[:last] {
			rest -= w + gap
		}
		widths[last] = min(widths[last], max(rest, lastWidth))
	}
	var b strings.Builder
	head := make([]cell, len(g.head))
	for i, h := range g.head {
		head[i] = cell{h, bold}
	}
	for _, row := range append([][]cell{head}, g.rows...) {
		for i, c := range row {
			text := c.text
			if i == last {
				if width > 0 {
					text = truncate(text, widths[last])
				}
				b.WriteString(paint(color, c.color, text))
				break
			}
			b.WriteString(paint(color, c.color, text))
			b.WriteString(strings.Repeat(" ", widths[i]+gap-runewidth.StringWidth(text)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// fit makes a wide column the last one, which is the one that gives way, and takes columns out until the rest has room
// in a width in columns. It returns the heads of those.
func (g *grid) fit(width int) (left []string) {
	if len(g.rows) == 0 || len(g.head) < 2 {
		return nil
	}
	for {
		widths, total := g.widths(), 0
		widest := len(widths) - 1
		for i, w := range widths {
			if i > 0 && w > widths[widest] {
				widest = i
			}
			total += w + gap
		}
		fits := width == 0 || total-gap <= width
		if fits && widths[widest] <= wideColumn {
			return left
		}
		g.move(widest)
		if fits || len(g.head) <= 2 || total-widths[widest]+lastWidth <= width {
			return left
		}
		second := len(g.head) - 2
		widths = g.widths()
		for i := 1; i < second; i++ {
			if widths[i] > widths[second] {
				second = i
			}
		}
		left = append(left, g.head[second])
		g.take(second)
	}
}

func (g *grid) widths() []int {
	widths := make([]int, len(g.head))
	for i, h := range g.head {
		widths[i] = runewidth.StringWidth(h)
	}
	for _, row := range g.rows {
		for i, c := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(c.text))
		}
	}
	return widths
}

// move makes column i the last one.
func (g *grid) move(i int) {
	head := g.head[i]
	g.head = append(slices.Delete(g.head, i, i+1), head)
	for r, row := range g.rows {
		c := row[i]
		g.rows[r] = append(slices.Delete(row, i, i+1), c)
	}
}

// take takes column i out.
func (g *grid) take(i int) {
	g.head = slices.Delete(g.head, i, i+1)
	for r, row := range g.rows {
		g.rows[r] = slices.Delete(row, i, i+1)
	}
}

// names is the first column alone.
func (g *grid) names() string {
	var b strings.Builder
	for _, row := range g.rows {
		b.WriteString(row[0].text + "\n")
	}
	return b.String()
}

// truncate shortens a text to a width in columns.
func truncate(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	return runewidth.Truncate(s, width, "…")
}

// show prints a table: with -q its names alone, and none at all as a hint of what to do about it.
func (s *session) show(g *grid, none string) {
	switch {
	case s.quiet:
		s.screen.raw(g.names())
	case len(g.rows) == 0:
		s.hint("%s", none)
	default:
		s.screen.raw(g.render(s.screen.onOut.width(), s.screen.onOut.colored(s.noColor)))
	}
}

// card is the details of one thing: a label and a value a line, texts of several lines indented below.
type card struct {
	b     strings.Builder
	width int // of the labels, when some are longer than labelWidth
}

const labelWidth = 14

func (c *card) line(label, value string) {
	if value != "" && value != "-" {
		c.b.WriteString(label + strings.Repeat(" ", max(1, max(c.width, labelWidth)-len(label))) + value + "\n")
	}
}

func (c *card) text(label, value string) {
	value = strings.TrimRight(value, "\n")
	if !strings.Contains(value, "\n") {
		c.line(label, value)
		return
	}
	c.b.WriteString(label + "\n")
	for line := range strings.SplitSeq(value, "\n") {
		c.b.WriteString("  " + line + "\n")
	}
}
