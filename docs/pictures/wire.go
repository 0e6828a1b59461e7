package main

// The columns of the picture, and the slope of a packet's line: time runs downwards.
const (
	captionX   = 24.0
	publisherX = 352.0
	switchX    = 452.0
	firstX     = 570.0
	columnGap  = 132.0
	slope      = 0.06
)

// subscriberX is the position of the line of subscriber i, counted from 0.
func subscriberX(i int) float64 { return firstX + columnGap*float64(i) }

// The fate of a packet at a subscriber.
type fate int

const (
	delivered fate = iota
	lost
	pending // received, not delivered before a missing packet
	unused  // duplicate, or without messages
)

// drawWire draws a publisher that sends three packets to three subscribers, one of which loses the second packet.
func drawWire(c *colours) []byte {
	const width, height = 920, 606
	v := newCanvas(c, width, height, "Packets on the wire: one datagram for all subscribers; a lost packet is requested by unicast and repaired by one multicast")
	names := []string{"subscriber A", "subscriber B", "subscriber C"}
	v.column(publisherX, height, "publisher")
	v.column(switchX, height, "network")
	for i, name := range names {
		v.column(subscriberX(i), height, name)
	}

	v.caption(88, "Publish: one datagram.", "The network copies it.")
	v.multicast(88, "1", c.data, delivered, delivered, delivered)
	v.caption(158, "Packet 2 is lost", "on the path to B.")
	v.multicast(158, "2", c.data, delivered, lost, delivered)
	v.caption(228, "B received 3, but not 2:", "it holds 3 back.")
	v.multicast(228, "3", c.data, delivered, pending, delivered)
	v.caption(300, "B requests 2 at once, by unicast:", "one NAK for all missing packets.")
	v.unicast(286, 1, "NAK 2", c.request, "")
	v.caption(370, "One repair for all subscribers.", "B delivers 2, then 3.")
	v.multicast(370, "2", c.repair, unused, delivered, unused)
	v.delivered(370, 1, "3", c.data)
	v.caption(446, "A heartbeat has the last number,", "to detect the loss of the last packet.")
	v.multicast(446, "heartbeat", c.control, unused, unused, unused)
	v.caption(520, "Statuses report what each received,", "and how much more it can buffer.")
	for i := range names {
		v.unicast(500+22*float64(i), i, "", c.control, "3 4")
	}
	v.label(publisherX-8, 547, "end", c.muted, small, "statuses")
	v.badge(captionX+8, 582, "1", c.data, true)
	v.label(captionX+24, 586, "start", c.muted, small, "delivered")
	v.badge(captionX+108, 582, "3", c.data, false)
	v.label(captionX+124, 586, "start", c.muted, small, "received, held back")
	return v.done()
}

// column draws a participant and its time line.
func (v *canvas) column(x float64, height int, name string) {
	v.segment(x, 52, x, float64(height)-16, v.line, 1.5, "")
	w := 24 + 7.8*float64(len(name))
	v.box(x-w/2, 20, w, 32, v.page, v.line, v.text, bold, name)
}

func (v *canvas) caption(y float64, lines ...string) {
	v.label(captionX, y+4, "start", v.text, "", lines...)
}

// at is the time at which a packet that leaves the publisher at y reaches x.
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
		case pending:
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

// delivered draws a message that is delivered together with a packet that leaves the publisher at y.
func (v *canvas) delivered(y float64, i int, name, colour string) {
	x := subscriberX(i)
	v.badge(x+44, at(y, x)+16, name, colour, true)
}

// unicast draws a packet to the publisher that leaves subscriber i at y.
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

// badge draws a message: filled if it is delivered, with full false if it is held back.
func (v *canvas) badge(x, y float64, name, colour string, full bool) {
	fill, text := colour, v.page
	if !full {
		fill, text = v.page, colour
	}
	w := 6 + 9*float64(len(name))
	v.box(x-w/2-1, y-9, w+2, 18, fill, colour, text, small+bold, name)
}
