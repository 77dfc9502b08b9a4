with Ada.Text_IO; use Ada.Text_IO;
with Ada.Containers.Vectors;
procedure Words is
   package V is new Ada.Containers.Vectors (Natural, Integer);
   L : V.Vector;
   generic type T is private; with function "+" (A, B : T) return T;
   function Twice (X : T) return T;
   function Twice (X : T) return T is begin return X + X; end Twice;
   function TI is new Twice (Integer, "+");
   task type Worker is entry Go (N : Integer); end Worker;
   task body Worker is begin accept Go (N : Integer) do Put_Line (Integer'Image (TI (N))); end Go; end Worker;
   W : Worker;
begin
   for I in 1 .. 10 loop L.Append (I * I); end loop;
   W.Go (3);
   Put_Line (Integer'Image (L.Element (4)));
exception when others => Put_Line ("oops");
end Words;
