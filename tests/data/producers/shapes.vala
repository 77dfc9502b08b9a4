public class Shape : Object { public int w { get; set; } public virtual int area () { return w * w; } }
int main (string[] args) { var s = new Shape (); s.w = args.length; var l = new GLib.List<string> (); foreach (var a in args) l.append (a.up ()); stdout.printf ("%d %u\n", s.area (), l.length ()); return 0; }
