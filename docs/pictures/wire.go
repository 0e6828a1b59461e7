package main

// The columns of the picture of the wire, and how steep the way of a packet is: time goes downwards.
const (
	notesX     = 24.0
	publisherX = 352.0
	switchX    = 452.0
	firstX     = 570.0
	columnGap  = 132.0
	slope      = 0.06
)

// subscriberX is where the line of subscriber i, from 0 on, stands.
func subscriberX(i int) float64 { return firstX + columnGap*float64(i) }

// The fate of a packet at a subscriber.
type fate int

const (
	delivered fate = iota
	lost
	waits  // received, and kept until what is missing before it has come
	unused // it was there already
)

// drawWire draws what is on the wire when a publisher sends three packets to three
// subscribers, of which one misses the second.
func drawWire(c *colours) []byte {
	const width, height = 920, 606
	v := newCanvas(c, width, height, "What happens on the wire: one datagram for all subscribers; a loss is asked for by unicast and repaired by one multicast")
	names := []string{"subscriber A", "subscriber B", "subscriber C"}
	v.column(publisherX, height, "publisher")
	v.column(switchX, height, "network")
	for i, name := range names {
		v.column(subscriberX(i), height, name)
	}

	v.note(88, "Publish: one datagram.", "The network copies it.")
	v.multicast(88, "1", c.data, delivered, delivered, delivered)
	v.note(158, "Packet 2 gets lost", "on its way to B.")
	v.multicast(158, "2", c.data, delivered, lost, delivered)
	v.note(228, "B has 3 and lacks 2:", "3 waits.")
	v.multicast(228, "3", c.data, delivered, waits, delivered)
	v.note(300, "B asks at once, by unicast:", "one NAK for all that it lacks.")
	v.unicast(286, 1, "NAK 2", c.request, "")
	v.note(370, "One repair for all that lack it.", "B delivers 2, then 3.")
	v.multicast(370, "2", c.repair, unused, delivered, unused)
	v.after(370, 1, "3", c.data)
	v.note(446, "A heartbeat has the last number:", "so a lost last packet is found, too.")
	v.multicast(446, "heartbeat", c.control, unused, unused, unused)
	v.note(520, "Statuses say what each has, and", "how much more it has room for.")
	for i := range names {
		v.unicast(500+22*float64(i), i, "", c.control, "3 4")
	}
	v.label(publisherX-8, 547, "end", c.muted, small, "statuses")
	v.badge(notesX+8, 582, "1", c.data, true)
	v.label(notesX+24, 586, "start", c.muted, small, "delivered")
	v.badge(notesX+108, 582, "3", c.data, false)
	v.label(notesX+124, 586, "start", c.muted, small, "received, waits")
	return v.done()
}

// column draws a side of the exchange and its line of time.
func (v *canvas) column(x float64, height int, name string) {
	v.segment(x, 52, x, float64(height)-16, v.line, 1.5, "")
	w := 24 + 7.8*float64(len(name))
	v.box(x-w/2, 20, w, 32, v.page, v.line, v.text, bold, name)
}

func (v *canvas) note(y float64, lines ...string) {
	v.label(notesX, y+4, "start", v.text, "", lines...)
}

// at is when a packet that leaves the publisher at y is at x.
func at(y, x float64) float64 { return y + slope*(x-publisherX) }

// multicast draws a packet from the publisher to all subscribers.
func (v *canvas) multicast(y float64, name, colour string, fates ...fate) {
	dash, thick := "", 2.5
	if colour == v.control {
		dash, thick = "3 4", 1.5
	}
	end := subscriberX(len(fates) - 1)
	v.segment(publisherX, y, end, at(y, end), colour, thick, dash)
	v.arrowhead(publisherX, y, end-8, at(y, end-8), colour)
	v.dot(switchX, at(y, switchX), 3, colour, false)
	if len(name) == 1 {
		v.badge(publisherX-18, y, name, colour, true)
	} else {
		v.label(publisherX-8, y+4, "end", v.muted, small, name)
	}
	for i, f := range fates {
		x := subscriberX(i)
		y := at(y, x)
		switch f {
		case delivered:
			v.dot(x, y, 5, colour, false)
			v.badge(x+20, y+16, name, colour, true)
		case waits:
			v.dot(x, y, 5, colour, true)
			v.badge(x+20, y+16, name, colour, false)
		case lost:
			const r = 6.0
			v.dot(x, y, 9, v.page, false)
			v.segment(x-r, y-r, x+r, y+r, v.request, 2.5, "")
			v.segment(x-r, y+r, x+r, y-r, v.request, 2.5, "")
		case unused:
			v.dot(x, y, 3, colour, false)
		}
	}
}

// after draws what is delivered right behind a packet that leaves the publisher at y.
func (v *canvas) after(y float64, i int, name, colour string) {
	x := subscriberX(i)
	v.badge(x+44, at(y, x)+16, name, colour, true)
}

// unicast draws a packet from subscriber i, which it leaves at y, to the publisher.
func (v *canvas) unicast(y float64, i int, name, colour, dash string) {
	x := subscriberX(i)
	end := y + slope*(x-publisherX)
	thick := 2.5
	if dash != "" {
		thick = 1.5
	}
	v.segment(x, y, publisherX, end, colour, thick, dash)
	v.arrowhead(x, y, publisherX+1, end, colour)
	v.dot(x, y, 4, colour, false)
	if name != "" {
		v.label((x+switchX)/2-20, (y+at(y, switchX+(x-switchX)/2))/2-12, "middle", colour, bold, name)
	}
}

// badge shows a message that is handed to the application, or with full false one that waits.
func (v *canvas) badge(x, y float64, name, colour string, full bool) {
	fill, text := colour, v.page
	if !full {
		fill, text = v.page, colour
	}
	w := 6 + 9*float64(len(name))
	v.box(x-w/2-1, y-9, w+2, 18, fill, colour, text, small+bold, name)
}
